import { nowMs } from "../../core/clock.js";
import { backendError } from "../../core/errors.js";
import { makeScript, type RedisClient, runScript, type Script, type Subscription } from "../redis/client.js";
import { RedisLink } from "../redis/link.js";
import type { RedisSettings } from "../redis/options.js";
import { LUA } from "./keys.js";
import { readVote, type Vote } from "./replies.js";
import { Silence } from "./silence.js";

export const SCRIPTS = {
  settle: makeScript(LUA.settle),
  renew: makeScript(LUA.renew),
  release: makeScript(LUA.release),
  list: makeScript(LUA.list),
  greet: makeScript(LUA.greet),
};

/** One of the independent servers. */
export class QuorumNode {
  readonly where: string;
  readonly #link: RedisLink;
  readonly #claim: Script;
  readonly #silence: Silence;
  /** Whether the server may be another one than the last that we asked for a vote. */
  #doubtful = true;
  /** By how much its clock was ahead of ours, in µs, when it was last asked: all the way there included. */
  aheadUs: number | undefined;

  constructor(where: string, settings: RedisSettings, timeoutMs: number) {
    this.where = where;
    this.#silence = new Silence(timeoutMs);
    this.#link = new RedisLink(settings, () => {});
    this.#claim = claimScript(settings);
  }

  run(script: Script, keys: readonly string[], args: readonly string[]): Promise<unknown> {
    return this.#ask((client) => runScript(client, script, keys, args));
  }

  /**
   * Asks for a vote. Scripts are gone when a server was started anew, and it has to be noticed if it was: so
   * whenever its script is sent, and after every failure, the server compares who it is with who it was.
   */
  vote(keys: readonly string[], args: readonly string[], grantMs: number): Promise<Vote> {
    // Its answer would come too late to count; what is under way to it already will tell when it is back.
    if (this.#silence.lasts) return Promise.reject(this.silence());
    const sentMs = nowMs();
    const verified = [...args, "verify"];
    const doubtful = this.#doubtful;
    const asked = this.#ask((client) =>
      client.evalSha(this.#claim, keys, doubtful ? verified : args).catch(async (error: unknown) => {
        if (!(error instanceof Error) || !error.message.startsWith("NOSCRIPT")) throw error;
        // Also a script that fails, as when memory is full, is known from then on: so what may fail goes first.
        await runScript(client, SCRIPTS.greet, keys.slice(-1), []);
        return client.evalText(this.#claim, keys, verified);
      }),
    );
    return asked.then(
      (reply) => {
        if (doubtful) this.#doubtful = false;
        const vote = readVote(reply, grantMs, this.where);
        if (vote.state === "granted") this.aheadUs = vote.atUs - sentMs * 1000;
        return vote;
      },
      (error: unknown) => {
        this.#doubtful = true;
        throw error;
      },
    );
  }

  async *scan(patternFor: (keyPrefix: string) => string): AsyncIterable<readonly string[]> {
    const client = await this.#link.use(async (open) => open);
    const batches = this.#link.each(client.scan(patternFor(client.keyPrefix)));
    for await (const batch of batches) yield batch.map((key) => key.slice(client.keyPrefix.length));
  }

  async subscribe(channel: string, onMessage: (message: string) => void): Promise<Subscription> {
    return (await this.#link.client()).subscribe(channel, onMessage);
  }

  silence(): Error {
    return backendError(`Redis at ${this.where}: no answer in time`, { retryable: true });
  }

  close(): Promise<void> {
    this.#silence.end();
    return this.#link.close();
  }

  #ask(work: (client: RedisClient) => Promise<unknown>): Promise<unknown> {
    const asked = this.#link.use(work);
    this.#silence.listen(asked);
    return asked;
  }
}

/**
 * That a server does not know this script is how its start is noticed. A server remembers scripts for all of its
 * users together: so those of another prefix or database, who look after their own, must have another one.
 */
function claimScript({ prefix, address, client }: RedisSettings): Script {
  // As ioredis and node-redis call it.
  const { options } = (client ?? {}) as { options?: { db?: number; database?: number; keyPrefix?: string } };
  const db = address?.db ?? options?.db ?? options?.database ?? 0;
  const whose = JSON.stringify([prefix, db, options?.keyPrefix]);
  return makeScript(`${LUA.claim}\n-- ${whose}\n`);
}
