import type { Routine, Step } from "./routine.js";
import { sql } from "./sql.generated.js";

/**
 * The revision of tables and routines together: a change of one of them raises it. It is a part of the routines'
 * names, so that releases that share a database each call their own.
 */
export const REVISION = 3;

/** The lowest revision that may share the tables with this one. A release below it is refused from then on. */
export const BREAKING = 2;

/** What a routine of this release is called. */
export function routineName(name: string): string {
  return `${name}_r${REVISION}`;
}

const why: Step = { sql: sql.why, into: ["reason", "by_whom"], when: "is_gone" };

const LOOKED = [
  ...["mine", "own_weight", "own_capacity", "own_fixed", "own_min_hold_us", "own_granted_us"],
  ...["own_deadline_us", "has_left", "ahead", "live_capacity", "soonest_us", "expired"],
];
const ALONE = [
  ...["verdict", "ticket", "granted_us", "deadline_us", "enters", "is_gone", "catches_up", "remaining_us"],
];
const SETTLED = ["ticket", "granted_us", "deadline_us", "enters", "stays", "is_gone", "catches_up"];

/** Enter the queue, or refresh my place, and ask. */
export const claim: Routine = {
  name: "claim",
  inputs: [
    ...["name", "id", "asked", "weight", "capacity", "ttl_us", "fixed", "min_hold_us", "queue"],
    ...["capped", "max_waiters", "owner", "note", "bell", "floor"],
  ],
  steps: [
    { sql: sql.advance, counts: "advanced" },
    { sql: sql.draw, unless: "advanced" },
    "clock",
    { sql: sql.occupied, into: ["drawn", "occupied"] },
    { sql: sql.alone, into: ALONE, unless: "occupied" },
    { sql: sql.look, into: LOOKED, when: "occupied" },
    // One that is just being renewed is waited for here, and stays: so only what is gone now counts no more.
    { sql: sql["drop-expired"], counts: "removed", when: "expired" },
    { sql: sql.look, into: LOOKED, when: "expired" },
    { sql: sql["count-waiters"], into: ["waiters"], when: "capped" },
    { sql: sql.judge, into: ["verdict"], when: "occupied" },
    { sql: sql.settle, into: SETTLED, when: "occupied" },
    { sql: sql.tell, into: ["remaining_us", "change_us"], when: "occupied" },
    { sql: sql["catch-up"], when: "catches_up" },
    { sql: sql.enter, when: "enters" },
    { sql: sql.refresh, when: "stays" },
    why,
    "ring",
  ],
  answer: [
    ...["verdict", "ticket", "remaining_us", "change_us", "live_capacity", "waiters"],
    ...["reason", "by_whom"],
  ],
};

const FOUND = ["ticket", "victim_bell", "was_there", "removes", "stays", "forced"];

/** Leave the queue, give back the lock, or take it away from somebody. */
export const leave: Routine = {
  name: "leave",
  onlyOnce: true,
  inputs: ["name", "id", "ordinary", "ending", "reason", "by_whom", "floor"],
  steps: [
    { sql: sql.lock, into: ["locked"] },
    // A claim that has made the row and is not committed yet is waited for: it may be the one that is to end.
    { sql: sql.draw, unless: "locked" },
    "clock",
    { sql: sql.release, counts: "was_there", when: "ordinary" },
    // So is a renewal that has begun before the claim ran out.
    { sql: sql.seize, into: ["seized"], unless: "was_there" },
    { sql: sql.find, into: FOUND, unless: "was_there" },
    { sql: sql.remove, when: "removes" },
    { sql: sql["stay-behind"], when: "stays" },
    { sql: sql["forget-forced"], when: "forced" },
    { sql: sql["remember-forced"], when: "forced" },
    "ring",
  ],
  answer: ["was_there"],
};

/** Drops what has run out at names that nobody asks for, and lets in whoever waits behind it. */
export const tidy: Routine = {
  name: "tidy",
  inputs: ["list"],
  each: ["name"],
  steps: [{ sql: sql.lock, into: ["locked"] }, { sql: sql["drop-expired"], counts: "removed" }, "ring"],
  answer: ["removed"],
};

const STANDING = ["verdict", "remaining_us", "change_us", "is_gone"];

/**
 * Extends many claims. Locks rows of claims only, in the order of the list, which is that of names and tickets,
 * as everybody else does at one name: so there is no deadlock.
 */
export const renew: Routine = {
  name: "renew",
  inputs: ["list"],
  each: ["name", "id", "ticket", "ttl_us", "is_alone", "is_first"],
  steps: [
    { sql: sql.renew },
    { sql: sql["stand-alone"], into: STANDING, when: "is_alone" },
    { sql: sql.line, into: ["first_waiting", "soonest_us"], when: "is_first" },
    { sql: sql.stand, into: STANDING, unless: "is_alone" },
    why,
  ],
  answer: ["verdict", "remaining_us", "change_us", "reason", "by_whom"],
};

export const poll: Routine = {
  name: "poll",
  inputs: ["list"],
  onlyOnPrimary: true,
  steps: ["clock"],
  answer: {
    sql: sql.poll,
    columns: {
      kind: "text",
      name: "text",
      ticket: "text",
      ahead: "bigint",
      id: "text",
      reason: "text",
      by_whom: "text",
    },
  },
};

export const names: Routine = {
  name: "names",
  inputs: ["first", "most"],
  steps: [],
  answer: { sql: sql.names, columns: { name: "text" } },
};

export const records: Routine = {
  name: "records",
  inputs: ["name", "most"],
  steps: ["clock"],
  answer: {
    sql: sql.records,
    columns: {
      id: "text",
      ticket: "text",
      weight: "integer",
      capacity: "integer",
      age_us: "text",
      remaining_us: "text",
      owner: "text",
      note: "text",
    },
  },
};

/** Forgets idle names among the next few, and tells which of them have claims that ran out. */
export const sweep: Routine = {
  name: "sweep",
  inputs: ["after", "most", "retention_us"],
  steps: [
    "clock",
    { sql: sql["sweep-range"], into: ["last", "number"] },
    { sql: sql["cell-sweep"] },
    { sql: sql.sweep, counts: "forgotten" },
    { sql: sql.abandoned, into: ["abandoned"] },
  ],
  answer: ["last", "number", "forgotten", "abandoned"],
};

/** Changes a cell if it is as expected. Its version is drawn as a ticket is, under the same lock. */
export const writeCell: Routine = {
  name: "write_cell",
  onlyOnce: true,
  inputs: ["name", "expected", "deletes", "body", "keep_us", "floor"],
  steps: [
    { sql: sql.advance, counts: "advanced" },
    { sql: sql.draw, unless: "advanced" },
    "clock",
    { sql: sql["cell-find"], into: ["drawn", "found"] },
    { sql: sql["cell-judge"], into: ["written", "stores", "drops"] },
    { sql: sql["cell-store"], when: "stores" },
    { sql: sql["cell-drop"], when: "drops" },
  ],
  answer: ["written", "drawn"],
};

export const readCell: Routine = {
  name: "read_cell",
  inputs: ["name"],
  steps: ["clock"],
  answer: { sql: sql["cell-read"], columns: { version: "text", body: "text" } },
};

export const ROUTINES: readonly Routine[] = [
  ...[claim, leave, tidy, renew, poll, names, records, sweep],
  ...[writeCell, readCell],
];
