import type { Backend, CellStore, Notify } from "../core/backend.js";
import { nowMs } from "../core/clock.js";
import { backendError } from "../core/errors.js";
import { startTimer } from "../core/timer.js";

/** An engine that can be away for a while: requests fail, and notifications are lost. */
export interface BreakableBackend {
  readonly backend: Backend;
  /** Away from now on, for so long. Afterwards each claim is told to ask, as engines do after a break. */
  outage(lastsMs: number): void;
}

export function breakable(engine: Backend): BreakableBackend {
  const watchers = new Set<Notify>();
  let awayUntilMs = -Infinity;
  const isAway = () => nowMs() < awayUntilMs;
  const assertThere = () => {
    if (isAway()) throw backendError("the engine is away, because the test said so.", { retryable: true });
  };
  const asked = async <T>(ask: () => Promise<T>): Promise<T> => {
    assertThere();
    return await ask();
  };
  const cells = engine.cells && breakableCells(engine.cells, asked);
  const backend: Backend = {
    traits: engine.traits,
    claim: (request) => asked(() => engine.claim(request)),
    renew: (claims) => asked(() => engine.renew(claims)),
    release: (claim, ending) => asked(() => engine.release(claim, ending)),
    async *list(query) {
      assertThere();
      yield* engine.list(query);
    },
    watch(claim, notify) {
      const unwatch = engine.watch(claim, (news) => void (isAway() || notify(news)));
      watchers.add(notify);
      return () => {
        watchers.delete(notify);
        unwatch();
      };
    },
    ...(cells === undefined ? undefined : { cells }),
    close: () => engine.close(),
  };
  const outage = (lastsMs: number) => {
    awayUntilMs = Math.max(awayUntilMs, nowMs() + lastsMs);
    startTimer(() => {
      if (!isAway()) for (const notify of [...watchers]) notify();
    }, lastsMs).unref();
  };
  return { backend, outage };
}

function breakableCells(cells: CellStore, asked: <T>(ask: () => Promise<T>) => Promise<T>): CellStore {
  return {
    read: (name) => asked(() => cells.read(name)),
    write: (name, change) => asked(() => cells.write(name, change)),
  };
}
