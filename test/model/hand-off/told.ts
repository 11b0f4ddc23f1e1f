import type { Answer, ClaimRequest, Notification, Renewal } from "#lib/core/backend.js";
import type { Lease } from "#lib/core/lease.js";
import type { Machine } from "./world.js";

const BUDGET_MS = 100;

/** A claim, as what its process was told allows to believe in it. Times are those of its process. */
export interface Told {
  readonly machine: Machine;
  name: string;
  ttlMs: number;
  ticket: bigint | undefined;
  trustedUntilMs: number;
  longestMs: number;
  /** The engine tells when another process wants it. */
  tells: boolean;
  wantedMs: number | undefined;
  isReleased: boolean;
  isGone: boolean;
  goneTicket: bigint | undefined;
  grantedMs: number | undefined;
  last: Task | undefined;
}

/** A task as the rules see it. */
export interface Task {
  readonly id: number;
  readonly machine: Machine;
  readonly name: string;
  readonly ttlMs: number;
  readonly maxHoldMs: number;
  readonly waitMs: number;
  readonly shares: boolean;
  /** It shares unless its call chain holds something, which may be lost by now. */
  readonly mayShare: boolean;
  readonly signal: AbortSignal | undefined;
  cameMs: number;
  /** In which step its caller has cancelled it. */
  cancelledAt: number | undefined;
  lease?: Lease;
  isOver: boolean;
}

const NEW = {
  ticket: undefined,
  trustedUntilMs: -Infinity,
  longestMs: 0,
  tells: false,
  wantedMs: undefined,
  isReleased: false,
  isGone: false,
  goneTicket: undefined,
  grantedMs: undefined,
  last: undefined,
};

/** Works out again, from what each process heard, what it may believe. */
export class ToldClaims {
  readonly all = new Map<string, Told>();

  get(id: string): Told | undefined {
    return this.all.get(id);
  }

  answered(machine: Machine, request: ClaimRequest, answer: Answer, sentMs: number): void {
    const { id, name, ttlMs } = request;
    const known = this.all.get(id);
    if (answer.state === "gone" && known !== undefined) known.isGone = true;
    if (answer.state !== "granted" && answer.state !== "waiting") return;
    const told = known ?? { ...NEW, machine, name, ttlMs };
    // What refreshes a claim may ask for less than the ttl.
    if (told.ticket === undefined) this.all.set(id, Object.assign(told, { name, ttlMs }));
    if (told.ticket === undefined && answer.state === "granted") told.tells = answer.tells === true;
    told.ticket = answer.ticket;
    told.isGone ||= told.ticket === told.goneTicket;
    this.#trust(told, answer.remainingMs, sentMs);
  }

  renewed(machine: Machine, id: string, answer: Renewal, sentMs: number): void {
    const told = this.all.get(id);
    if (told === undefined) return;
    if (answer.state === "gone") told.isGone = true;
    if (answer.state !== "held" && answer.state !== "waiting") return;
    // The question was older than the grant: such an answer says nothing of a holder.
    if (answer.state === "waiting" && told.grantedMs !== undefined) return;
    if (answer.state === "held" && answer.wanted) told.wantedMs ??= machine.localMs;
    this.#trust(told, answer.remainingMs, sentMs);
  }

  notified(machine: Machine, id: string, notification: Notification): void {
    const told = this.all.get(id);
    if (notification.state === "granted") return;
    const claim = told ?? { ...NEW, machine, name: "", ttlMs: 0 };
    this.all.set(id, claim);
    if (notification.state === "wanted") claim.wantedMs ??= machine.localMs;
    // It may be faster than the answer with the ticket.
    else claim.goneTicket = notification.ticket;
    claim.isGone ||= claim.ticket !== undefined && claim.ticket === claim.goneTicket;
  }

  #trust(told: Told, remainingMs: number, sentMs: number): void {
    const { localMs } = told.machine;
    if (told.grantedMs !== undefined && localMs >= told.trustedUntilMs) return;
    told.longestMs = Math.max(told.longestMs, remainingMs);
    const untilMs = sentMs + remainingMs - Math.max(told.ttlMs, remainingMs) * 0.01 - 2;
    told.trustedUntilMs = Math.max(told.trustedUntilMs, untilMs);
  }
}

/** From then on a claim is handed to no other task. */
export function budgetEndMs({ tells, wantedMs, grantedMs, ttlMs }: Told): number {
  const fromMs = tells ? (wantedMs === undefined ? Infinity : Math.max(wantedMs, grantedMs ?? 0)) : grantedMs;
  return fromMs === undefined ? Infinity : fromMs + Math.min(BUDGET_MS, ttlMs / 3);
}
