import type { ClaimRequest } from "../../core/backend.js";
import { metadataOf } from "../../engine-kit/claim-metadata.js";

/** The arguments of claim.lua. Most calls ask for the same as the call before, so the texts are kept. */
export class ClaimArgs {
  readonly #channel: string;
  readonly #retentionMs: number;
  #last: ClaimRequest | undefined;
  #shape = "";
  #terms = "";
  #keptMs: string | undefined;

  constructor(channel: string, retentionMs: number) {
    this.#channel = channel;
    this.#retentionMs = retentionMs;
  }

  /** The floor is the lowest ticket to draw; 0 for a claim that has one already. */
  of(request: ClaimRequest, floor: number): readonly string[] {
    const last = this.#last;
    if (last === undefined || !asksTheSame(last, request)) this.#make(request);
    const args = [`${request.id} ${this.#shape}`, this.#terms, String(floor)];
    if (this.#keptMs !== undefined) args.push(this.#keptMs);
    return args;
  }

  #make(request: ClaimRequest): void {
    const { ticket, ttlMs, minHoldMs, capacity, weight, fixed, queue, maxWaiters = -1 } = request;
    const grantMs = Math.max(ttlMs, minHoldMs);
    const simple = ticket === undefined && minHoldMs === 0;
    const who = `${this.#channel} ${JSON.stringify(metadataOf(request))}`;
    this.#last = request;
    this.#keptMs = simple ? String(Math.ceil(Math.max(grantMs, this.#retentionMs)) + 1) : undefined;
    this.#shape = `${toUs(grantMs)} ${capacity} ${weight} ${fixed ? 1 : 0} ${toUs(minHoldMs)} ${who}`;
    this.#terms = `${ticket ?? 0} ${toUs(ttlMs)} ${queue ? maxWaiters : "try"} ${this.#retentionMs}`;
  }
}

/** Apart from the id. Each by its name, because that is quicker than a loop, and this is done for each claim. */
function asksTheSame(a: ClaimRequest, b: ClaimRequest): boolean {
  return (
    a.owner === b.owner &&
    a.note === b.note &&
    a.resize === b.resize &&
    a.ticket === b.ticket &&
    a.ttlMs === b.ttlMs &&
    a.minHoldMs === b.minHoldMs &&
    a.capacity === b.capacity &&
    a.weight === b.weight &&
    a.fixed === b.fixed &&
    a.queue === b.queue &&
    a.maxWaiters === b.maxWaiters
  );
}

export function toUs(ms: number): string {
  return String(Math.round(ms * 1000));
}
