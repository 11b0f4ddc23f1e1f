import type { Backend, ClaimRequest } from "../core/backend.js";
import { ticketOf } from "../core/claim.js";
import { startInterval } from "../core/timer.js";
import type { Interval } from "./history.js";

const TICK_MS = 10;

/** The monotonic clock that all processes of this machine share. */
export function now(): bigint {
  return process.hrtime.bigint();
}

export function toNs(ms: number): bigint {
  return BigInt(Math.floor(ms * 1e6));
}

/** Notices when this process did not run, be it stopped or starved, or when the engine did not answer. */
export class Pulse {
  readonly #longNs: bigint;
  #tickedAtNs = now();
  #stalledAtNs = 0n;
  /** When the questions were sent that have no answer yet. */
  readonly #pending = new Set<{ readonly sentAtNs: bigint }>();

  /** What takes longer than this is a stall. */
  constructor(longMs: number) {
    this.#longNs = toNs(longMs);
    startInterval(() => this.#tick(), TICK_MS).unref();
  }

  stalledSince(atNs: bigint): boolean {
    // The answer that we are asked about may have been read before our timer got its turn.
    this.#tick();
    for (const { sentAtNs } of this.#pending) this.#lasted(sentAtNs);
    return this.#stalledAtNs > atNs;
  }

  /** A question to the engine. */
  async asked<T>(question: Promise<T>): Promise<T> {
    const sent = { sentAtNs: now() };
    this.#pending.add(sent);
    try {
      return await question;
    } finally {
      this.#pending.delete(sent);
      this.#lasted(sent.sentAtNs);
    }
  }

  #lasted(sinceNs: bigint): void {
    const atNs = now();
    if (atNs - sinceNs > this.#longNs) this.#stalledAtNs = atNs;
  }

  #tick(): void {
    this.#lasted(this.#tickedAtNs);
    this.#tickedAtNs = now();
  }
}

interface Standing {
  claimId: string;
  fromNs?: bigint;
  untilNs: bigint;
}

/**
 * Stands between the locks and their engine. Sees which operations wait in the queue: their claims carry the
 * operation's id as a note.
 */
export class QueueWatch {
  readonly #standing = new Map<string, Standing>();
  readonly #byClaim = new Map<string, Standing>();
  /** When a claim was first sent: by its id until it is answered, then by its ticket. */
  readonly #sentAtNs = new Map<string, bigint>();
  readonly #claimedAtNs = new Map<string, bigint>();
  readonly #pulse: Pulse;
  #stopUntilNs = 0n;

  constructor(pulse: Pulse) {
    this.#pulse = pulse;
  }

  /**
   * Stops this process when the next grant or renewal has arrived and this process has not read it yet, as when it lies
   * in the socket's buffer: so it is old when it is read. Not later than this: there has to be a process
   * that lets this one run again.
   */
  stopBeforeGoodNews(untilNs: bigint): void {
    this.#stopUntilNs = untilNs;
  }

  of(backend: Backend): Backend {
    return {
      traits: backend.traits,
      claim: async (request) => {
        const place = this.#place(request.note, request.id);
        const sentAtNs = now();
        const firstSentAtNs = this.#firstSentAtNs(request, sentAtNs);
        const answer = await this.#pulse.asked(backend.claim(request));
        if ("ticket" in answer) {
          this.#claimedAtNs.set(claimKey(request.name, answer.ticket), firstSentAtNs);
          this.#sentAtNs.delete(request.id);
        }
        if (answer.state === "granted") this.#stopIfTold();
        if (answer.state === "waiting") waits(place, sentAtNs);
        return answer;
      },
      renew: async (claims) => {
        const sentAtNs = now();
        const answers = await backend.renew(claims);
        if (answers.some(({ state }) => state === "held")) this.#stopIfTold();
        for (const [index, answer] of answers.entries()) {
          const place = this.#byClaim.get(claims[index]?.id ?? "");
          if (answer.state === "waiting" && place !== undefined) waits(place, sentAtNs);
        }
        return answers;
      },
      release: (claim, force) => backend.release(claim, force),
      list: (query) => backend.list(query),
      watch: (claim, notify) => backend.watch(claim, notify),
      close: () => backend.close(),
    };
  }

  #firstSentAtNs({ name, id, ticket }: ClaimRequest, sentAtNs: bigint): bigint {
    const knownAtNs = ticket === undefined ? undefined : this.#claimedAtNs.get(claimKey(name, ticket));
    const firstAtNs = knownAtNs ?? this.#sentAtNs.get(id) ?? sentAtNs;
    if (knownAtNs === undefined) this.#sentAtNs.set(id, firstAtNs);
    return firstAtNs;
  }

  /** When the claim was sent that was granted with this token. */
  claimedAtNs(name: string, token: bigint): bigint | undefined {
    return this.#claimedAtNs.get(claimKey(name, ticketOf(token)));
  }

  /** The last place that an operation had in the queue, and forgets it. */
  take(operation: string): Interval | undefined {
    const place = this.#standing.get(operation);
    if (place === undefined) return undefined;
    this.#standing.delete(operation);
    this.#byClaim.delete(place.claimId);
    return place.fromNs === undefined ? undefined : { fromNs: place.fromNs, untilNs: place.untilNs };
  }

  #stopIfTold(): void {
    if (now() >= this.#stopUntilNs) return;
    this.#stopUntilNs = 0n;
    process.kill(process.pid, "SIGSTOP");
  }

  /** A waiter that lost its position asks for another one, with another id, and is the last again. */
  #place(operation: string, claimId: string): Standing {
    const known = this.#standing.get(operation);
    if (known?.claimId === claimId) return known;
    if (known !== undefined) this.#byClaim.delete(known.claimId);
    const place: Standing = { claimId, untilNs: 0n };
    this.#standing.set(operation, place);
    this.#byClaim.set(claimId, place);
    return place;
  }
}

function claimKey(name: string, ticket: bigint): string {
  return `${ticket} ${name}`;
}

function waits(place: Standing, sentAtNs: bigint): void {
  place.fromNs ??= now();
  if (sentAtNs > place.untilNs) place.untilNs = sentAtNs;
}
