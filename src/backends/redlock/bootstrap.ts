import { SingleFlight } from "../../core/concurrency.js";
import { isLockError } from "../../core/errors.js";
import { askAll, type Reply, SOON } from "./ask-all.js";
import type { RedlockNode } from "./node.js";
import type { RedlockSettings } from "./options.js";
import type { Greeting } from "./replies.js";
import { failuresOf, notAllNew } from "./reports.js";
import { majorityOf } from "./tally.js";

type Replies = readonly (Reply<Greeting> | undefined)[];

/**
 * Before the first question all nodes are greeted: connecting takes longer than a vote may take, one server
 * must not be asked twice under two names, and those of a new quorum can be told so.
 */
export class Bootstrap {
  readonly #nodes: readonly RedlockNode[];
  readonly #settings: RedlockSettings;
  readonly #opening = new SingleFlight<void>();
  done = false;

  constructor(nodes: readonly RedlockNode[], settings: RedlockSettings) {
    this.#nodes = nodes;
    this.#settings = settings;
  }

  async open(): Promise<void> {
    await this.#opening.run(() => this.#greetAll());
    this.done = true;
  }

  async #greetAll(): Promise<void> {
    const replies = await this.#round();
    const failures = failuresOf(this.#nodes, replies);
    const twice = failures.find(({ error }) => isLockError(error, "invalid-option"));
    if (twice !== undefined) throw twice.error;
    if (!this.#mayBeNew(replies)) return;
    // A claim that is sent to the others meanwhile would make them wait, though they cannot have forgotten anything.
    if (failures.length > 0) throw notAllNew(failures);
    const declared = this.#nodes.map((node, index) => {
      const reply = replies[index];
      const mark = reply !== undefined && "answer" in reply ? reply.answer.born : "";
      return node.greet([String(this.#settings.maxTtlMs), "declare", mark]);
    });
    await Promise.allSettled(declared);
  }

  #round(): Promise<Replies> {
    const majority = majorityOf(this.#nodes.length);
    return askAll<RedlockNode, Greeting, Replies>({
      nodes: this.#nodes,
      ask: (node) => node.greet(),
      timeoutMs: 2 * this.#settings.timeoutMs,
      decide: (replies, over) => {
        // Each later request will tell of the nodes that cannot be reached now.
        if (over) return [...replies];
        return answersIn(replies).length >= majority && !this.#mayBeNew(replies) ? SOON : undefined;
      },
      silent: (node) => node.silence(),
    });
  }

  /** It takes all of them: one that was asked before is enough to know that the quorum is not new. */
  #mayBeNew(replies: Replies): boolean {
    return this.#settings.fresh && answersIn(replies).every(({ unused }) => unused);
  }
}

function answersIn(replies: Replies): readonly Greeting[] {
  return replies.flatMap((reply) => (reply && "answer" in reply ? [reply.answer] : []));
}
