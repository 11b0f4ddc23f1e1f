import { conformance, type Harness } from "locktender/testing";
import { markdownTable } from "./markdown-table.js";

/** What people look for, and the subjects of the suite that show it. */
const KINDS: Readonly<Record<string, string>> = {
  mutex: "mutual exclusion",
  "first come, first served": "the queue",
  "[read-write lock](read-write.md)": "read and write",
  "[semaphore](semaphores.md)": "semaphores",
  "[multi-lock](all.md)": "multi-lock",
  "[leader election](election.md)": "election",
  "[idempotency](once.md)": "once",
  "[optimistic locking](cells.md)": "cells",
  "[Web Locks](web-locks.md)": "web locks",
  "[deadlock detection](operating.md#deadlock-detection)": "deadlock detection",
};

interface Seen {
  run: number;
  skipped: number;
}

/** How many of the cases of each subject are run on an engine, and how many it cannot run. */
function seenOn(harness: Harness): ReadonlyMap<string, Seen> {
  const subjects = new Map<string, Seen>();
  const around: string[] = [];
  const now = (): Seen => {
    const subject = around.at(-1) ?? "";
    const seen = subjects.get(subject) ?? { run: 0, skipped: 0 };
    subjects.set(subject, seen);
    return seen;
  };
  // What a test lacks, such as a network in between, says nothing about the engine.
  const lacks = new Set([harness.queue?.skip, harness.cells?.skip, harness.kinds?.skip]);
  conformance(
    {
      describe: (name, body) => {
        around.push(name);
        body();
        around.pop();
      },
      test: () => void now().run++,
      skip: (_, reason) => void (lacks.has(reason) ? now().skipped++ : now().run++),
    },
    harness,
  );
  return subjects;
}

/** Half a kind may be worth something; half an order is none. */
function said({ run, skipped }: Seen, subject: string): string {
  if (skipped === 0) return "yes";
  return run === 0 || subject === "the queue" ? "no" : "in part";
}

/** What works where, as a table. */
export function kindsTable(engines: Readonly<Record<string, Harness>>): string {
  const columns = Object.entries(engines).map(([engine, harness]) => ({ engine, seen: seenOn(harness) }));
  const rows = Object.entries(KINDS).map(([kind, subject]) => {
    const cells = columns.map(({ seen }) => said(seen.get(subject) ?? { run: 0, skipped: 1 }, subject));
    return [kind, ...cells];
  });
  const header = ["", ...columns.map(({ engine }) => engine)];
  const reasons = columns.flatMap(({ engine }) => {
    const { queue, cells, kinds } = engines[engine] as Harness;
    return [queue, cells, kinds].flatMap((lack) =>
      lack === undefined ? [] : [`- ${engine}: ${lack.skip}.`],
    );
  });
  return [markdownTable(header, rows), "", ...reasons].join("\n");
}
