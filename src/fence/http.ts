import { invalidOption } from "../core/errors.js";
import { knownOptions } from "../core/options.js";
import { admit, type FenceOptions, passOf } from "./fenced.js";
import { type FencingTokenOptions, fencingToken, type RequestLike, type Sender } from "./header.js";
import { type FenceStore, memoryStore } from "./store.js";

export type HttpFenceOptions = FenceOptions & FencingTokenOptions;
type Handler<T> = (sender: Sender) => T | Promise<T>;

export interface HttpFence {
  <T>(request: RequestLike, handler: Handler<T>): Promise<T>;
  <T>(request: RequestLike, options: HttpFenceOptions, handler: Handler<T>): Promise<T>;
}

interface Work {
  readonly token: bigint;
  readonly done: Promise<void>;
}

const OPTIONS: ReadonlySet<string> = new Set(["lock", "resource"]);

/**
 * Runs the handler of a request if no newer token was seen, and otherwise throws `StaleTokenError`. In this
 * process, handlers with older tokens end before one with a newer token begins: what they still write would
 * otherwise land after it. Where several processes serve, `fence` in the handler's own transaction does that.
 */
export function httpFence(store: FenceStore = memoryStore()): HttpFence {
  const atWork = new Map<string, Set<Work>>();

  async function inTurn<T>(resource: string, token: bigint, enter: () => Promise<void>, work: () => T) {
    const all = atWork.get(resource) ?? new Set();
    atWork.set(resource, all);
    let leave = () => {};
    const own: Work = { token, done: new Promise((resolve) => (leave = resolve)) };
    // Before the store is asked: an older one that comes after our look at them is refused by the store.
    all.add(own);
    try {
      await enter();
      await Promise.all([...all].filter((other) => other.token < token).map(({ done }) => done));
      return await work();
    } finally {
      leave();
      all.delete(own);
      if (all.size === 0) atWork.delete(resource);
    }
  }

  return async <T>(request: RequestLike, ...rest: [Handler<T>] | [HttpFenceOptions, Handler<T>]) => {
    const [options, handler]: [HttpFenceOptions, Handler<T>] = rest.length === 1 ? [{}, rest[0]] : rest;
    knownOptions(options, OPTIONS, "fence");
    if (typeof handler !== "function") throw invalidOption("fence: the last argument is the handler.");
    const sender = fencingToken(request, { lock: options.lock });
    const pass = passOf(sender, options);
    const enter = async () => admit(pass, await store.raise(pass.resource, pass.token));
    return inTurn(pass.resource, pass.token, enter, () => handler(sender));
  };
}
