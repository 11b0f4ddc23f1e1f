import { nowMs } from "../../core/clock.js";
import { invalidOption } from "../../core/errors.js";
import { gather, SOON } from "./gather.js";
import { bornKey } from "./keys.js";
import { type QuorumNode, SCRIPTS } from "./node.js";
import type { QuorumSettings } from "./options.js";
import { majorityOf } from "./tally.js";

/** How old the news may be that no node was ever used. */
const FRESH_NEWS_MS = 2_000;

interface Greeting {
  readonly node: QuorumNode;
  readonly runId: string;
  readonly unused: boolean;
}

/**
 * Before the first question all nodes are greeted: connecting takes longer than a vote may take, one server
 * must not be asked twice under two names, and those of a new quorum can be told so.
 */
export class Opening {
  readonly #nodes: readonly QuorumNode[];
  readonly #settings: QuorumSettings;
  #opening: Promise<void> | undefined;
  done = false;

  constructor(nodes: readonly QuorumNode[], settings: QuorumSettings) {
    this.#nodes = nodes;
    this.#settings = settings;
  }

  async open(): Promise<void> {
    this.#opening ??= this.#greetAll();
    try {
      await this.#opening;
      this.done = true;
    } finally {
      this.#opening = undefined;
    }
  }

  async #greetAll(): Promise<void> {
    let greetings = await this.#round();
    this.#assertDistinct(greetings);
    if (!this.#settings.fresh) return;
    // Now that they are connected: it takes all of them, and the news must be new.
    const startMs = nowMs();
    greetings = await this.#round();
    const unused = greetings.length === this.#nodes.length && greetings.every((greeting) => greeting.unused);
    if (!unused || nowMs() - startMs > FRESH_NEWS_MS) return;
    await Promise.allSettled(this.#nodes.map((node) => this.#greet(node, ["declare"])));
  }

  #round(): Promise<readonly Greeting[]> {
    const majority = majorityOf(this.#nodes.length);
    return gather<QuorumNode, Greeting, readonly Greeting[]>({
      nodes: this.#nodes,
      ask: (node) => this.#greet(node, []),
      timeoutMs: 2 * this.#settings.timeoutMs,
      decide: (replies, over) => {
        const answers = replies.flatMap((reply) => (reply && "answer" in reply ? [reply.answer] : []));
        // Of those who cannot be reached now, each question will tell.
        if (over) return answers;
        return answers.length >= majority && !this.#settings.fresh ? SOON : undefined;
      },
      silent: (node) => node.silence(),
    });
  }

  async #greet(node: QuorumNode, declare: readonly string[]): Promise<Greeting> {
    const { prefix, maxTtlMs } = this.#settings;
    const reply = await node.run(SCRIPTS.greet, [bornKey(prefix)], [String(maxTtlMs), ...declare]);
    const [runId, unused] = reply as [string, number];
    return { node, runId: String(runId), unused: Number(unused) === 1 };
  }

  #assertDistinct(greetings: readonly Greeting[]): void {
    for (const { node, runId } of greetings) {
      const twin = greetings.find((other) => other.runId === runId && other.node !== node);
      if (twin === undefined) continue;
      throw invalidOption(
        `redlock: ${twin.node.where} and ${node.where} are the same server, and one server has one vote.`,
      );
    }
  }
}
