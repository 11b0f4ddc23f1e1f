import { nextTick } from "node:process";
import { type RedisClient, runScript, type Script } from "../../clients/redis/client.js";
import type { RedisConnection } from "../../clients/redis/connection.js";
import { readEach, readReply } from "../../clients/redis/replies.js";
import { nowMs } from "../../core/clock.js";
import { asError } from "../../core/errors.js";
import { isMoving, keepsSlotsApart, SCRIPTS } from "./scripts.js";

/** More in one call would keep the server from all its other clients for too long, and the first answer from its caller. */
const MOST_ELEMENTS = 64;
const MOST_CHARACTERS = 32_768;
/** Of the answers to one call; the others are told behind what the callers of these ask next. */
const TOLD_AT_ONCE = 16;

/** What a script is run with. */
export interface Request {
  readonly script: Script;
  readonly keys: readonly string[];
  readonly args: readonly string[];
  /** Whether it may be sent once more when its connection breaks. */
  readonly repeatable: boolean;
  /** Which client has sent it last. */
  client?: RedisClient;
}

/** A claim or a release. */
export interface Element<T = unknown> extends Request {
  readonly name: string;
  /** Throws if this is none of its script's answers. */
  readonly read: (reply: unknown) => T | Promise<T>;
  /** By which batch.lua knows its script: `c` for a claim, `r` for a release. */
  readonly letter: "c" | "r";
}

/** An element with the promise of its answer. */
interface Asked {
  readonly element: Element;
  readonly resolve: (answer: never) => void;
  readonly reject: (error: unknown) => void;
}

/** What one turn of the event loop has issued until now. */
interface Turn {
  readonly asked: Asked[];
  readonly sinceMs: number;
  characters: number;
}

/** The server has done nothing: each element is sent by itself. */
const ALONE = "alone";
/** The connection broke, and there is a new one. What was sent may have been carried out. */
const BROKEN = Symbol("broken");

/** Its callback runs with those of the other promises of this turn. It costs less than `queueMicrotask`. */
const SETTLED = Promise.resolve();

/** By a test tool that was faster than this import (see core/timer.ts): it would stand still until a test moves it. */
const IS_FAKE = "clock" in nextTick;

/** The server has looked at the names of the keys, and did not run the script. */
const NEVER_RAN = /^NOPERM\b/;

/**
 * The claims and releases of one turn of the event loop go to the server as one call, in the order in which they were
 * issued, when the promises of that turn have run; one alone goes as it is. The time for an answer counts from the
 * first of them. A call is never sent twice if it may have been carried out.
 */
export class Batcher {
  readonly #connection: RedisConnection;
  readonly #sendAlone: (element: Element, sinceMs: number) => Promise<unknown>;
  readonly #atEnd = () => this.flush();
  /** What is due next comes behind the promises that are being settled now, and behind those that they settle. */
  readonly #whenSettled = IS_FAKE ? this.#atEnd : () => nextTick(this.#atEnd);
  #turn: Turn | undefined;

  constructor(
    connection: RedisConnection,
    sendAlone: (element: Element, sinceMs: number) => Promise<unknown>,
  ) {
    this.#connection = connection;
    this.#sendAlone = sendAlone;
  }

  ask<T>(element: Element<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const turn = this.#turn ?? this.#begin();
      turn.asked.push({ element, resolve, reject });
      turn.characters += lengthOf(element);
      if (turn.asked.length >= MOST_ELEMENTS || turn.characters >= MOST_CHARACTERS) this.flush();
    });
  }

  /** Sends what has been issued until now. */
  flush(): void {
    const turn = this.#turn;
    if (turn === undefined) return;
    this.#turn = undefined;
    const { asked, sinceMs } = turn;
    const calls = this.#connection.keepsNamesApart ? byName(asked) : [asked];
    for (const call of calls) this.#send(call, sinceMs);
  }

  #begin(): Turn {
    const turn: Turn = { asked: [], sinceMs: nowMs(), characters: 0 };
    this.#turn = turn;
    void SETTLED.then(this.#whenSettled);
    return turn;
  }

  #send(asked: readonly Asked[], sinceMs: number): void {
    const [first] = asked;
    if (asked.length === 1 && first !== undefined) this.#alone(first, sinceMs);
    else this.#together(asked, sinceMs);
  }

  #alone(one: Asked, sinceMs: number): void {
    this.#sendAlone(one.element, sinceMs).then((reply) => settle(one, reply), one.reject);
  }

  #together(asked: readonly Asked[], sinceMs: number): void {
    const keys: string[] = [];
    const args = [""];
    let shape = "";
    const before: Record<Element["letter"], readonly string[]> = { c: [], r: [] };
    for (const { element } of asked) {
      const { letter } = element;
      const given = differsBehindFirst(element.args, before[letter]) ? element.args.length : 1;
      before[letter] = element.args;
      shape += `${letter}${element.keys.length}${given}`;
      for (const key of element.keys) keys.push(key);
      for (let index = 0; index < given; index++) args.push(element.args[index] as string);
    }
    args[0] = shape;
    let isSent = false;
    let failure: unknown;
    const work = (client: RedisClient): Promise<unknown> => {
      if (isSent) return Promise.resolve(BROKEN);
      isSent = true;
      for (const { element } of asked) element.client = client;
      return runScript(client, SCRIPTS.batch, keys, args).catch((error: unknown) => {
        failure = error;
        const { message } = asError(error);
        if (keepsSlotsApart(message)) this.#connection.keepNamesApart();
        else if (!isMoving(message) && !NEVER_RAN.test(message)) throw error;
        return ALONE;
      });
    };
    this.#connection.use(work, true, sinceMs).then(
      (reply) => {
        if (reply === ALONE) for (const one of asked) this.#alone(one, sinceMs);
        else if (reply === BROKEN) this.#again(asked, failure, sinceMs);
        else this.#answer(asked, reply);
      },
      (error: unknown) => {
        for (const { reject } of asked) reject(error);
      },
    );
  }

  /** What may be repeated goes by itself, as it would have if it had been alone. */
  #again(asked: readonly Asked[], failure: unknown, sinceMs: number): void {
    for (const one of asked) {
      if (one.element.repeatable) this.#alone(one, sinceMs);
      else one.reject(this.#connection.errorOf(failure));
    }
  }

  #answer(asked: readonly Asked[], reply: unknown): void {
    let answers: readonly unknown[];
    try {
      answers = readReply(reply, (list) => readEach(list, asked.length, asItIs));
    } catch (error) {
      for (const { reject } of asked) reject(error);
      return;
    }
    this.#tell(asked, answers, 0);
  }

  /**
   * In groups, in one turn of the event loop: what the callers of a group ask next is sent when their promises have run,
   * so the server works on it while the callers of the next group go on here.
   */
  #tell(asked: readonly Asked[], answers: readonly unknown[], from: number): void {
    const until = IS_FAKE ? asked.length : Math.min(from + TOLD_AT_ONCE, asked.length);
    for (let index = from; index < until; index++) {
      const one = asked[index] as Asked;
      const answer = answers[index];
      if (typeof answer === "string" && answer.startsWith("-")) {
        one.reject(this.#connection.errorOf(new Error(answer.slice(1))));
      } else settle(one, answer);
    }
    if (until < asked.length) void SETTLED.then(() => nextTick(() => this.#tell(asked, answers, until)));
  }
}

function settle({ element, resolve, reject }: Asked, reply: unknown): void {
  try {
    resolve(readReply(reply, element.read) as never);
  } catch (error) {
    reject(error);
  }
}

/** Mostly only the first is another one than in the element before it, and each that is sent costs time. */
function differsBehindFirst(args: readonly string[], before: readonly string[]): boolean {
  if (args.length !== before.length) return true;
  for (let index = 1; index < args.length; index++) if (args[index] !== before[index]) return true;
  return false;
}

/** The part of it that can be long: the names in the keys, and what is shown of a claim. */
function lengthOf({ keys, args }: Element): number {
  return keys.length * (keys[0]?.length ?? 0) + (args[0]?.length ?? 0);
}

function asItIs(answer: unknown): unknown {
  return answer;
}

/** Keys of several names may be in several slots. */
function byName(asked: readonly Asked[]): Iterable<readonly Asked[]> {
  const names = new Map<string, Asked[]>();
  for (const one of asked) {
    const ofName = names.get(one.element.name);
    if (ofName === undefined) names.set(one.element.name, [one]);
    else ofName.push(one);
  }
  return names.values();
}
