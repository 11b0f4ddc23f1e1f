import type { Bug, Edit } from "./bug.js";

// Mistakes in the hand-off and in sticky leases. Most are found by the model: by runs at random, all with fixed seeds.

const EDGES = "test/core/hand-off-edges.test.ts";
const MODEL = "test/model/hand-off.test.ts";
const QUIET = [MODEL, "hold while all goes well"] as const;
/** The end of a claim whose task has lost it. */
const LOST = "connection.inBackground(connection.withdraw(claim));\n        this.shared?.end();";
const FAULTS = [MODEL, "hold while messages are lost"] as const;
const STICKY = [MODEL, "hold with sticky mutexes while all goes well"] as const;
const CROWD = [MODEL, "hold with more tasks than a claim has numbers"] as const;

const edit =
  (file: string) =>
  (find: string, replace: string, times = 1): Edit => ({ file: `core/${file}.js`, find, replace, times });
const inQueue = edit("local-queue");
const inShared = edit("shared-claim");
const inState = edit("claim-state");
const inHeld = edit("held-claim");
const inAsking = edit("asking");

const HANDS_OFF = "if (wasHeld && shared?.passOn(this)) {";

export const HAND_OFF_BUGS: readonly Bug[] = [
  {
    name: "trust counted from the hand-off",
    edits: [
      inState(
        "this.#waiter = undefined;\n    }\n    /** It is held, but",
        "this.#waiter = undefined; this.#trustedUntilMs = atMs + this.ttlMs;\n    }\n    /** It is held, but",
      ),
    ],
    caughtBy: FAULTS,
  },
  {
    name: "a hand-off without a look at the clock",
    edits: [
      inState("return !this.#isShortened && restMs >= this.#longestMs / 3;", "return !this.#isShortened;"),
      inHeld("#noticeLoss() {", "#noticeLoss() { return;"),
    ],
    caughtBy: FAULTS,
  },
  {
    name: "a claim handed off though little is left of it",
    edits: [inState("restMs >= this.#longestMs / 3", "restMs > 0")],
    caughtBy: FAULTS,
  },
  {
    name: "the limit of the first task kept for the next one",
    edits: [
      inState(
        "this.holdLimitMs = atMs + limits.maxHoldMs;",
        "this.holdLimitMs = Math.min(this.holdLimitMs, atMs + limits.maxHoldMs);",
      ),
    ],
    caughtBy: [EDGES, "the maxHold of a task does not limit"],
  },
  {
    name: "a claim used after its release was sent",
    edits: [
      inQueue(
        "this.#held = undefined;\n        stopTimer",
        "const again = released && this.nextTask(); if (again) { held.number++; this.give(held, again); return; }\n        this.#held = undefined;\n        stopTimer",
      ),
    ],
    caughtBy: QUIET,
  },
  {
    name: "a claim that goes on after a maxHold",
    edits: [
      inHeld(HANDS_OFF, "if (shared?.passOn(this)) {"),
      inHeld(LOST, LOST.replace("this.shared?.end();", "")),
    ],
    caughtBy: FAULTS,
  },
  {
    name: "a late release by id of a claim that was handed on",
    edits: [
      inHeld(
        HANDS_OFF,
        "if (!wasHeld && shared?.passOn(this)) { connection.inBackground(connection.withdraw(claim)); return false; } if (wasHeld && shared?.passOn(this)) {",
      ),
      inHeld(LOST, LOST.replace("this.shared?.end();", "")),
    ],
    caughtBy: FAULTS,
  },
  {
    name: "a loss told to the tasks that wait",
    edits: [
      inQueue(
        "this.#held = undefined;\n        stopTimer",
        "if (released === undefined && held.holder?.lost) { for (const task of this.#tasks) task.fail(held.holder.lost); this.#tasks.clear(); }\n        this.#held = undefined;\n        stopTimer",
      ),
    ],
    caughtBy: FAULTS,
  },
  {
    name: "a task that inherits the loss of the one before it",
    edits: [
      inHeld(HANDS_OFF, "if (shared?.passOn(this)) {"),
      inHeld(LOST, LOST.replace("this.shared?.end();", "")),
      inShared(
        "this.#holder = holder;",
        "holder.lost = this.last?.lost; this.last = holder; this.#holder = holder;",
      ),
    ],
    caughtBy: FAULTS,
  },
  {
    name: "a loss told to the task that held first",
    edits: [inState("this.#holder = holder;", "this.#holder ??= holder;")],
    caughtBy: FAULTS,
  },
  {
    name: "a forced release told as taken, because the next grant comes before the news",
    edits: [
      inHeld(
        "this.#superseded = this.#learnLoss().then(() => false);",
        'this.#lost("taken"); this.#superseded = Promise.resolve(false);',
      ),
    ],
    caughtBy: [
      "test/engines/redis/conformance-single-ioredis.test.ts",
      "seeing and forcing a forced holder is told why, also if",
    ],
  },
  {
    name: "the outage of earlier tasks told to a task that has not asked yet",
    edits: [{ file: "core/asking.js", find: "this.outage.askedMs >= cameMs", replace: "true" }],
    caughtBy: [
      "test/core/hand-off.test.ts",
      "the outage that a task comes into is not its own before a question of its own is answered",
    ],
  },
  {
    name: "a lock handed to a task whose signal has aborted",
    edits: [
      {
        file: "core/waiting-task.js",
        find: "&& this.request.signal?.aborted !== true",
        replace: "",
      },
    ],
    caughtBy: ["test/core/shared-claims.test.ts", "a lock is not handed to a task whose signal"],
  },
  {
    name: "no next claim after a loss",
    edits: [
      inQueue(
        "this.#tasks.size > 0 && this.#next === undefined && !",
        "released !== undefined && this.#next === undefined && !",
      ),
    ],
    caughtBy: FAULTS,
  },
  {
    name: "no next claim at the end of the budget",
    edits: [
      inQueue(
        "if (held.isSpent) {\n            this.#askNext();\n            return;\n        }",
        "if (held.isSpent) return;",
      ),
    ],
    caughtBy: QUIET,
  },
  {
    name: "a budget's timer that is early and does not look again",
    edits: [
      inQueue(
        "if (this.#held === held && this.#tasks.size > 0)\n                this.#watchBudget();",
        "if (this.#held === held && held.isSpent) this.#watchBudget();",
      ),
    ],
    caughtBy: QUIET,
  },
  {
    name: "no budget",
    edits: [inShared("nowMs() >= this.budgetEndsAtMs", "false")],
    caughtBy: QUIET,
  },
  {
    name: "numbers beyond 1,023",
    edits: [inShared("LAST_NUMBER = 1_023", "LAST_NUMBER = 9_999")],
    caughtBy: CROWD,
  },
  {
    name: "two tasks with one token",
    edits: [inShared("this.number++;\n            this.#tasks.give", "this.#tasks.give")],
    caughtBy: QUIET,
  },
  {
    name: "a task that is woken, and may be cancelled before it is granted the claim",
    edits: [
      inQueue(
        "task.grant(this.#hold(held, task.request));",
        "queueMicrotask(() => { if (!task.isLeaving) task.grant(this.#hold(held, task.request)); });",
      ),
    ],
    caughtBy: QUIET,
  },
  {
    name: "the claim of all withdrawn when its first task leaves",
    edits: [inQueue("this.#tasks.size > 0 || asking === undefined", "asking === undefined")],
    caughtBy: QUIET,
  },
  {
    name: "the claim of all not withdrawn when the last task leaves",
    edits: [inQueue("this.#tasks.size > 0 || asking === undefined", "true")],
    caughtBy: QUIET,
  },
  {
    name: "tasks that are not served in the order in which they came",
    edits: [
      inQueue(
        "of this.#tasks)\n            if (task.wantsGrant(atMs))",
        "of [...this.#tasks].reverse())\n            if (task.wantsGrant(atMs))",
      ),
    ],
    caughtBy: QUIET,
  },
  {
    name: "a newer grant beside a live lease of the same process",
    edits: [edit("local-names")("if (grant.ticket < ticket)", "if (false)")],
    caughtBy: FAULTS,
  },
  {
    name: "an old grant believed beside a newer lease of the same process",
    edits: [edit("local-names")("grant.ticket > ticket && grant.live", "false")],
    caughtBy: [EDGES, "a grant that is older than a lease"],
  },
  {
    name: "that a claim is gone told to the task that asked, not to the one that holds",
    edits: [inHeld("claim.toldGone(", "this.gone(")],
    caughtBy: [EDGES, "that a claim is gone is told to the task that holds"],
  },
  {
    name: "a notification dropped while the first question is under way",
    edits: [
      inAsking(
        "notified() {\n        this.#notified = true;",
        "notified() {\n        this.#notified = !this.unheard;",
      ),
    ],
    caughtBy: QUIET,
  },
  {
    name: "that it is gone dropped while the first question is under way",
    edits: [inAsking("this.#gone ??= this.claim.goneBeforeAnswer;", "")],
    caughtBy: FAULTS,
  },
  {
    name: "that it is wanted dropped while the first question is under way",
    edits: [inState("this.#wantedTicket = notification.ticket;", "")],
    caughtBy: STICKY,
  },
  {
    name: "a sticky claim kept although others wait",
    edits: [
      inShared("this.#mayStay = tellsFromStart && !claim.wanted;", "this.#mayStay = request.stickyMs > 0;"),
    ],
    caughtBy: STICKY,
  },
  {
    name: "a sticky claim kept because one before it was granted at once",
    edits: [inAsking("this.tellsFromStart = false;", "")],
    caughtBy: [EDGES, "a claim that had to wait is not kept idle"],
  },
  {
    name: "an idle claim not given up when it is wanted",
    edits: [inShared("if (this.isIdle)\n            void this.release();", "if (this.isIdle) return;")],
    caughtBy: STICKY,
  },
  {
    name: "an idle claim that is lost, and taken by the next task",
    edits: [inShared("return this.claim.trusted() && this.claim.canServeAnother() && ", "return ")],
    caughtBy: [EDGES, "a process that slept while its claim was idle"],
  },
  {
    name: "hand-offs that keep timers from running",
    edits: [inShared("const turn = yieldTurn();", "const turn = undefined;")],
    caughtBy: [EDGES, "hand-offs let timers run"],
  },
  {
    name: "a task that holds another lock waits where no server sees it",
    edits: [edit("acquire")("request.holds === undefined", "true")],
    caughtBy: [EDGES, "a task that waits and holds another lock"],
  },
  {
    name: "a timeout behind another task of the process that names no holder",
    edits: [
      edit("diagnostics/timeout-error")(
        "ticketOf(token) === ticket",
        "ticket === undefined || ticketOf(token) === ticket",
      ),
    ],
    caughtBy: [EDGES, "a task that waits behind another task of its process"],
  },
  {
    name: "a lock that is only tried refused because other tasks ask for it",
    edits: [
      edit("local-names")("here.queues.some((queue) => queue.isBetweenTasks)", "here.queues.length > 0"),
    ],
    caughtBy: [EDGES, "a lock that is only tried is asked for"],
  },
  {
    name: "without a queue, a process that asks in the moment of its release",
    edits: [inQueue("this.#askLater(released);", "this.#askNext();")],
    caughtBy: [EDGES, "without a queue, a process with many tasks"],
  },
  {
    name: "a queue of tasks that takes the name of a later one with it",
    edits: [inQueue("if (index === -1)\n            return;", "")],
    caughtBy: [EDGES, "a task that leaves after the claim of all has failed"],
  },
];
