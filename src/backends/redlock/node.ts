import {
  isUnknownScript,
  makeScript,
  type RedisClient,
  runScript,
  type Script,
} from "../../clients/redis/client.js";
import { RedisConnection } from "../../clients/redis/connection.js";
import type { RedisSettings } from "../../clients/redis/options.js";
import { readReply } from "../../clients/redis/replies.js";
import { nowMs } from "../../core/clock.js";
import { backendError, invalidOption, isLockError } from "../../core/errors.js";
import { AnswerTimer } from "../../engine-kit/request-timeout.js";
import { failuresOf, notAllNew } from "./errors.js";
import { bornKey } from "./keys.js";
import { lua } from "./lua.generated.js";
import { answerIn, answersIn, askAll, majorityOf, type Replies, SOON } from "./majority.js";
import type { RedlockSettings } from "./options.js";
import { type Greeting, readGreeting, readVote, type Vote } from "./replies.js";

export const SCRIPTS = {
  /** Never run as it is: each start of a server has a script of its own, made of this text. */
  claim: makeScript(lua["claim-idle"] + lua.common + lua.claim),
  settle: makeScript(lua.common + lua.settle),
  renew: makeScript(lua.common + lua.renew),
  release: makeScript(lua["release-only"] + lua.common + lua.release),
  list: makeScript(lua.common + lua.list),
  greet: makeScript(lua.greet),
};

/** The servers of a quorum, which know of each other: none of them has two votes. */
export function nodesOf({ nodes, timeoutMs }: RedlockSettings): readonly RedlockNode[] {
  const all: RedlockNode[] = [];
  for (const { where, settings } of nodes) all.push(new RedlockNode(where, settings, timeoutMs, all));
  return all;
}

/** One of the independent servers. */
export class RedlockNode {
  readonly where: string;
  readonly #all: readonly RedlockNode[];
  readonly connection: RedisConnection;
  readonly #bornKey: string;
  readonly #health: NodeHealth;
  /** Which start of which server it is, and its script; once it was greeted, and while there is no doubt of it. */
  #start: { readonly runId: string; readonly script: Script } | undefined;
  /** By how much its clock was ahead of ours, in µs, when it was last asked: all the way there included. */
  aheadUs: number | undefined;

  constructor(where: string, settings: RedisSettings, timeoutMs: number, all: readonly RedlockNode[]) {
    this.where = where;
    this.#all = all;
    this.connection = new RedisConnection(settings, () => {});
    this.#bornKey = bornKey(settings.prefix);
    this.#health = new NodeHealth(timeoutMs);
  }

  async run<T>(
    script: Script,
    keys: readonly string[],
    args: readonly string[],
    read: (reply: unknown) => T,
  ): Promise<T> {
    // A release that is repeated would say that the claim was not there. Core tries a release again, and knows that.
    const repeatable = script !== SCRIPTS.release;
    const reply = await this.#ask((client) => runScript(client, script, keys, args), repeatable);
    return readReply(reply, read, this.where);
  }

  /** Which server it is, and since when it remembers. Can declare that nothing has been lost there. */
  greet(declaration: readonly string[] = []): Promise<Greeting> {
    return this.#ask(async (client) => (await this.#meet(client, declaration)).greeting);
  }

  /**
   * Asks for a vote. Which server would give it must be known before: so whenever the server does not know its script,
   * and after every failure, it is greeted first, and compares once more which start of a server it is.
   */
  vote(keys: readonly string[], args: readonly string[], grantMs: number): Promise<Vote> {
    // What is under way to it already will tell when it is back.
    if (this.#health.isSilent) return Promise.reject(this.silence());
    let sentMs = nowMs();
    let sentLate = false;
    let givenUp = false;
    let isRepeated = false;
    const afterGreeting = async (client: RedisClient) => {
      // Also a script that fails, as when memory is full, is known from then on: so what may fail goes first.
      const { script } = await this.#meet(client, []);
      // No caller would hear of the vote, and give it back.
      if (givenUp) throw this.silence();
      sentMs = nowMs();
      sentLate = true;
      return client.evalText(script, keys, [...args, "verify"]);
    };
    const asked = this.#ask((client) => {
      if (this.#start === undefined || isRepeated) return afterGreeting(client);
      isRepeated = true;
      return client.evalSha(this.#start.script, keys, args).catch((error: unknown) => {
        if (!isUnknownScript(error)) throw error;
        return afterGreeting(client);
      });
    });
    return asked.then(
      (reply) => {
        const vote = readReply(reply, (vote) => readVote(vote, grantMs), this.where);
        if (vote.state !== "granted") return vote;
        this.aheadUs = vote.atUs - sentMs * 1000;
        return sentLate ? { ...vote, sentLate } : vote;
      },
      (error: unknown) => {
        givenUp = true;
        this.#start = undefined;
        throw error;
      },
    );
  }

  silence(): Error {
    return backendError(`Redis at ${this.where}: no answer in time`, { retryable: true });
  }

  close(): Promise<void> {
    this.#health.end();
    return this.connection.close();
  }

  /**
   * A server forgets scripts when it is started anew, and has those of all its users together. So each start of
   * each server, database and prefix has a script of its own, which is known where it was greeted, and only there.
   */
  async #meet(client: RedisClient, declaration: readonly string[]) {
    const reply = await runScript(client, SCRIPTS.greet, [this.#bornKey], declaration);
    const greeting = readReply(reply, readGreeting, this.where);
    const twin = this.#all.find((other) => other !== this && other.#start?.runId === greeting.runId);
    if (twin !== undefined) {
      this.#start = undefined;
      throw invalidOption(
        `redlock: ${twin.where} and ${this.where} are the same server, and one server has one vote.`,
      );
    }
    const script = makeScript(`${SCRIPTS.claim.lua}\n-- ${greeting.born}\n`);
    this.#start = { runId: greeting.runId, script };
    return { greeting, script };
  }

  #ask<T>(work: (client: RedisClient) => Promise<T>, repeatable = true): Promise<T> {
    const asked = this.connection.use(work, repeatable);
    this.#health.listen(asked);
    return asked;
  }
}

const MOST_UNANSWERED = 10_000;

/** Notices that a server which was asked says nothing at all for too long. */
class NodeHealth {
  readonly #timeoutMs: number;
  #unanswered = 0;
  #heard = true;
  #silent = false;
  #timer: AnswerTimer | undefined;

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  /** Whether what is asked now would be answered too late to count. */
  get isSilent(): boolean {
    return this.#unanswered >= MOST_UNANSWERED || (this.#silent && this.#unanswered > 0);
  }

  /** Counts a question until it is answered or has failed. */
  listen(answer: Promise<unknown>): void {
    if (this.#unanswered++ === 0) this.#hear();
    this.#timer ??= this.#look();
    answer.then(
      () => {
        this.#unanswered--;
        this.#hear();
      },
      () => void this.#unanswered--,
    );
  }

  end(): void {
    this.#timer?.stop();
  }

  #hear(): void {
    this.#heard = true;
    this.#silent = false;
  }

  /** One timer for all that is asked meanwhile. */
  #look(): AnswerTimer {
    this.#heard = false;
    return new AnswerTimer(this.#timeoutMs, () => {
      this.#silent = this.#unanswered > 0 && !this.#heard;
      this.#timer = this.#unanswered > 0 ? this.#look() : undefined;
    }).unref();
  }
}

/**
 * Before the first question all nodes are greeted: connecting takes longer than a vote may take, one server
 * must not be asked twice under two names, and those of a new quorum can be told so.
 */
export async function greetAll(nodes: readonly RedlockNode[], settings: RedlockSettings): Promise<void> {
  // It takes all of them: one that was asked before is enough to know that the quorum is not new.
  const mayBeNew = (greetings: readonly Greeting[]) =>
    settings.fresh && greetings.every(({ unused }) => unused);
  const replies = await askAll<Greeting, Replies<Greeting>>({
    nodes,
    ask: (node) => node.greet(),
    timeoutMs: 2 * settings.timeoutMs,
    decide: (replies, over) => {
      // Each later request will tell of the nodes that cannot be reached now.
      if (over) return [...replies];
      const greetings = answersIn(replies);
      return greetings.length >= majorityOf(nodes.length) && !mayBeNew(greetings) ? SOON : undefined;
    },
  });
  const failures = failuresOf(nodes, replies);
  const twice = failures.find(({ error }) => isLockError(error, "invalid-option"));
  if (twice !== undefined) throw twice.error;
  if (!mayBeNew(answersIn(replies))) return;
  // A claim that is sent to the others meanwhile would make them wait, though they cannot have forgotten anything.
  if (failures.length > 0) throw notAllNew(failures);
  const declared = nodes.map((node, index) => {
    const mark = answerIn(replies[index])?.born ?? "";
    return node.greet([String(settings.maxTtlMs), "declare", mark]);
  });
  await Promise.allSettled(declared);
}
