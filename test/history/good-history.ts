import fc from "fast-check";
import type { Grant, Operation } from "#lib/testing/history.js";

const TTL_US = 300;

/** What a task wants of a lock, in µs of a made-up time. */
interface Wish {
  readonly name: string;
  readonly way: "try" | "wait" | "wait a little" | "die waiting";
  readonly end: "release" | "lose" | "die";
  readonly gap: number;
  readonly asking: number;
  readonly answering: number;
  readonly holding: number;
}

const wish = fc.record<Wish>({
  name: fc.constantFrom("stock", "orders"),
  way: fc.constantFrom("try", "wait", "wait", "wait", "wait a little", "die waiting"),
  end: fc.constantFrom("release", "release", "release", "lose", "die"),
  gap: fc.nat(40),
  asking: fc.integer({ min: 1, max: 30 }),
  answering: fc.integer({ min: 1, max: 30 }),
  holding: fc.integer({ min: 1, max: 100 }),
});

/** A history as a perfect engine makes it: it serves requests in the order in which they reach it. */
export const goodHistory = fc.array(wish, { minLength: 10, maxLength: 60 }).map(serve);

export function serve(wishes: readonly Wish[]): Operation[] {
  let clock = 0;
  const arrivals = wishes.map((one, index) => {
    clock += one.gap;
    return { ...one, id: `0.${index}#0`, invoked: clock, arrived: clock + one.asking };
  });
  arrivals.sort((a, b) => a.arrived - b.arrived);
  const freeAt = new Map<string, number>();
  return arrivals.map(({ id, name, way, end, invoked, arrived, answering, holding }, index): Operation => {
    const granted = Math.max(arrived, freeAt.get(name) ?? 0);
    const waits = granted > arrived;
    const operation = {
      id,
      worker: id.slice(0, -2),
      name,
      invokedAtNs: ns(invoked),
      limited: way !== "wait",
      queued: waits ? { fromNs: ns(arrived + answering), untilNs: ns((arrived + granted) / 2) } : undefined,
    };
    if (way === "die waiting") {
      // Its place, or a grant that it never heard of, stands until its time is over.
      freeAt.set(name, granted + TTL_US);
      return { ...operation, queued: undefined, killedAtNs: ns(arrived + holding) };
    }
    if (waits && way === "try") {
      return { ...operation, queued: undefined, outcome: { kind: "refused", atNs: ns(arrived + answering) } };
    }
    if (waits && way === "wait a little" && granted > arrived + holding) {
      const queued = { fromNs: ns(arrived + answering), untilNs: ns(arrived + holding) };
      return { ...operation, queued, outcome: { kind: "timeout", atNs: ns(arrived + holding + answering) } };
    }
    const at = granted + answering;
    const promised = granted + TTL_US;
    const until = end === "lose" ? promised : at + holding;
    freeAt.set(name, end === "release" ? until + 1 : promised + 1);
    const outcome: Grant = {
      kind: "granted",
      atNs: ns(at),
      token: BigInt(index + 1) * 1024n,
      believed: { fromNs: ns(at), untilNs: ns(until) },
      promisedUntilNs: ns(promised),
      end:
        end === "lose"
          ? { kind: "lost", atNs: ns(promised + 1), loss: "expired" }
          : { kind: end === "die" ? "process-ended" : "released" },
    };
    return { ...operation, outcome, ...(end === "die" ? { killedAtNs: ns(until) } : undefined) };
  });
}

function ns(us: number): bigint {
  return BigInt(Math.round(us * 1_000));
}
