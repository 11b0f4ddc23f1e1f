import type { Bug } from "./bug.js";

export const DATABASE_BUGS: readonly Bug[] = [
  {
    name: "a database that lets newcomers in, whichever claims are ahead",
    edits: [
      {
        file: "backends/sql/routines.generated.js",
        find: "WHEN :mine = 0 AND :ahead + :weight <= :capacity THEN 'granted'",
        replace: "WHEN :mine = 0 THEN 'granted'",
      },
    ],
    caughtBy: ["test/engines/postgres/conformance.test.ts", "one holder at a time among many tasks"],
  },
  {
    name: "a database that gives one ticket to two",
    edits: [
      {
        file: "backends/sql/routines.generated.js",
        find: "SET last_ticket = greatest(last_ticket + 1, @wall,",
        replace: "SET last_ticket = greatest(last_ticket, 0,",
      },
    ],
    caughtBy: [
      "test/engines/postgres/conformance.test.ts",
      "waiters are served in the order in which they came",
    ],
  },
  {
    name: "a database that takes tokens back when its clock is behind",
    edits: [
      {
        file: "backends/sql/routines.generated.js",
        find: "THEN :floor ELSE 0 END",
        replace: "THEN 0 ELSE 0 END",
        times: 2,
      },
    ],
    caughtBy: ["test/engines/postgres/failover.test.ts", "a clock that is 10 s behind"],
  },
  {
    name: "a new connection for each request that hangs",
    edits: [
      {
        file: "backends/sql/pool.js",
        find: 'if (kept.state !== "open")\n            return;\n        kept.state = "abandoned";',
        replace: "this.#drop(kept);",
      },
    ],
    // On a real server the surplus connection is there for a moment only, and may be missed by a look.
    caughtBy: ["test/engines/databases/pool.test.ts", "a connection whose request hangs counts until"],
  },
  {
    name: "a database whose old primary is asked again and again",
    edits: [{ file: "backends/postgres/errors.js", find: 'return "read-only"', replace: 'return "other"' }],
    caughtBy: ["test/engines/postgres/failover.test.ts", "a holder is told, a waiter is let in"],
  },
  {
    name: "PostgreSQL does not notify the waiter that is let in",
    edits: [
      {
        file: "backends/postgres/sql.generated.js",
        find: "|| ' granted'",
        replace: "|| ' grunted'",
      },
    ],
    caughtBy: ["test/engines/postgres/pools.test.ts", "a claim that does not wait causes no notification"],
  },
  {
    name: "PostgreSQL does not tell a sticky holder that another process waits, and neither does a renewal",
    edits: [
      {
        file: "backends/postgres/sql.generated.js",
        find: "|| ' wanted'",
        replace: "|| ' wonted'",
      },
      {
        file: "backends/sql/replies.js",
        find: 'bitOf(row, "wanted")',
        replace: "false",
      },
    ],
    caughtBy: ["test/engines/postgres/sticky.test.ts", "postgres.js: and given back when another"],
  },
  {
    name: "a renewal in a database does not say that others want a sticky claim",
    edits: [
      {
        file: "backends/sql/replies.js",
        find: 'bitOf(row, "wanted")',
        replace: "false",
      },
    ],
    caughtBy: ["test/engines/postgres/sticky.test.ts", "a notification that is lost costs at most a third"],
  },
];
