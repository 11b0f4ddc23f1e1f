import type { Ending } from "../../core/backend.js";
import { startTimer } from "../../core/timer.js";
import { forceText } from "../../engine-kit/claim-metadata.js";
import { askAll, SOON } from "./ask-all.js";
import { channelId, lockKeys, quorumChannel } from "./keys.js";
import { type RedlockNode, SCRIPTS } from "./node.js";
import type { RedlockSettings } from "./options.js";
import { readReleased } from "./replies.js";
import { failuresOf, noQuorum } from "./reports.js";
import { majorityOf } from "./tally.js";

/** A caller that closes waits no longer than this. */
const CLOSING_MS = 250;

const ANY_ATTEMPT = Number.MAX_SAFE_INTEGER;

export interface Released {
  /** A majority of nodes still had it. */
  readonly found: boolean;
  /** Another process has asked for it meanwhile, and is notified. */
  readonly shared: boolean;
}

/** Gives votes back: always to all nodes, and without waiting for those that do not answer. */
export class Releases {
  readonly #nodes: readonly RedlockNode[];
  readonly #settings: RedlockSettings;
  readonly #underWay = new Set<Promise<unknown>>();

  constructor(nodes: readonly RedlockNode[], settings: RedlockSettings) {
    this.#nodes = nodes;
    this.#settings = settings;
  }

  /** The claim ends, whichever attempt it was: its id is not used again. */
  async release(name: string, id: string, ending: Ending | undefined): Promise<Released> {
    const nodes = this.#nodes;
    const majority = majorityOf(nodes.length);
    return askAll<RedlockNode, number, Released>({
      nodes,
      ask: (node) => this.#tell(node, name, id, ANY_ATTEMPT, ending),
      timeoutMs: this.#settings.timeoutMs,
      decide: (replies, over) => {
        const answers = replies.flatMap((reply) => (reply && "answer" in reply ? [reply.answer] : []));
        const found = answers.filter((answer) => answer > 0).length;
        const unknown = nodes.length - answers.length;
        const shared = answers.includes(2);
        if (ending === undefined) {
          if (found >= majority) return { found: true, shared };
          if (found + unknown < majority) return { found: false, shared };
        } else if (answers.length >= majority) {
          // No work was done under an unused claim; and the holder of a forced one has been told.
          return over ? { found: found > 0 && found + unknown >= majority, shared } : SOON;
        }
        if (!over) return undefined;
        throw noQuorum(nodes.length, majority, failuresOf(nodes, replies), name);
      },
      silent: (node) => node.silence(),
    });
  }

  /** What one node granted to an attempt that came to nothing. No caller waits for that; its ttl ends it anyway. */
  withdraw(node: RedlockNode, name: string, id: string, attempt: number): void {
    this.#tell(node, name, id, attempt, "unused").catch(() => undefined);
  }

  /** One node may have heard of the end of the claim before it heard of the claim. */
  leave(node: RedlockNode, name: string, id: string): void {
    this.#tell(node, name, id, ANY_ATTEMPT, undefined).catch(() => undefined);
  }

  /** When all votes are given back that can be; on nodes that do not answer by then, the ttl ends them. */
  async settled(): Promise<void> {
    if (this.#underWay.size === 0) return;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise((resolve) => {
      timer = startTimer(() => resolve(undefined), CLOSING_MS);
    });
    await Promise.race([Promise.allSettled(this.#underWay), late]);
    clearTimeout(timer);
  }

  #tell(
    node: RedlockNode,
    name: string,
    id: string,
    attempt: number,
    ending: Ending | undefined,
  ): Promise<number> {
    const { prefix, retentionMs } = this.#settings;
    const args = [id, String(attempt), String(retentionMs), `${quorumChannel(prefix)} ${channelId(name)}`];
    if (typeof ending === "object") args.push(forceText(ending));
    else if (ending !== undefined) args.push(ending);
    const told = node.run(SCRIPTS.release, lockKeys(prefix, name), args, readReleased);
    const forget = () => void this.#underWay.delete(told);
    this.#underWay.add(told);
    told.then(forget, forget);
    return told;
  }
}
