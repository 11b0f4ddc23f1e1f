import type { AcquireRequest } from "./acquire-request.js";
import { Asking, type AskingListener } from "./asking.js";
import { type Owner, WHOLE } from "./claim.js";
import type { Connection } from "./connection.js";
import { HeldClaim } from "./held-claim.js";
import type { LocalName } from "./local-names.js";
import { localQueueFor, takeIdle } from "./local-queue.js";
import { type WaitingPlace, WaitingTask } from "./waiting-task.js";

/** Waits for the grant; `undefined` means that a single question was refused. */
export function acquire(connection: Connection, request: AcquireRequest): Promise<HeldClaim | undefined> {
  connection.assertOpen(request.name);
  request.signal?.throwIfAborted();
  if (mayShare(request)) {
    if (request.waitMs > 0 && request.holds === undefined) {
      return localQueueFor(connection, request).enter(request);
    }
    // To take what this process has is no waiting, so no deadlock comes of it.
    const idle = takeIdle(connection, request);
    if (idle !== undefined) return Promise.resolve(idle);
  }
  const released = connection.localNames.releaseIdle(request.name);
  if (isRefusedHere(connection, request)) return Promise.resolve(undefined);
  // An engine may carry out the claim before the release: a claim that only tries would be refused for good.
  if (released !== undefined && request.waitMs === 0)
    return released.then(() => acquire(connection, request));
  return new SingleClaim(connection, request).outcome;
}

/**
 * Whether tasks of this process may be served by one claim, one after the other. A claim with limits of its own serves
 * one task. A task that waits while its call chain holds other locks has a claim of its own, too, or a deadlock through
 * it would be in no server's queue.
 */
function mayShare({ shares, fixed, minHoldMs, maxWaiters }: AcquireRequest): boolean {
  return shares === true && !fixed && minHoldMs === 0 && maxWaiters === undefined;
}

/** A lock that is held in this process need not be asked for, if the caller does not want to wait. */
function isRefusedHere(connection: Connection, { name, waitMs, weight, onAnswer }: AcquireRequest): boolean {
  if (waitMs > 0 || weight !== WHOLE || onAnswer !== undefined) return false;
  return connection.localNames.isHeld(name);
}

/** One task with a claim of its own. */
class SingleClaim implements AskingListener, WaitingPlace {
  readonly #connection: Connection;
  readonly #task: WaitingTask;
  asking: Asking | undefined;
  /** Where it is counted as waiting. */
  #waitsAt: LocalName | undefined;

  constructor(connection: Connection, request: AcquireRequest) {
    this.#connection = connection;
    this.#task = new WaitingTask(connection, request, this);
    this.asking = new Asking(connection, request, this);
    this.asking.ask();
  }

  get outcome(): Promise<HeldClaim | undefined> {
    return this.#task.outcome;
  }

  // For the claim:

  ownerShown(): Owner {
    return this.#connection.owner;
  }

  granted(asking: Asking): void {
    const { localNames } = this.#connection;
    const { claim, request } = asking;
    const isExclusive = request.weight === request.capacity;
    if (isExclusive && !localNames.admit(claim.name, claim.ticket as bigint)) {
      asking.replace();
      return;
    }
    this.#uncount();
    this.asking = undefined;
    if (this.#task.isLeaving) this.#connection.inBackground(this.#connection.withdraw(claim));
    else this.#task.grant(new HeldClaim(this.#connection, claim, request));
  }

  refused(): void {
    this.#uncount();
    this.#task.refuse();
  }

  goesOn(asking: Asking, isNews: boolean): void {
    if (this.#waitsAt === undefined && this.#task.request.waitMs > 0) {
      this.#waitsAt = this.#connection.localNames.at(this.#task.name);
      this.#waitsAt.singleWaiters++;
    }
    if (asking.outage !== undefined) this.#task.askFailed();
    else if (isNews) this.#task.wait();
  }

  failed(asking: Asking, error: unknown, kept: boolean): void {
    this.#uncount();
    this.asking = undefined;
    if (kept) this.#connection.inBackground(asking.withdraw());
    else this.#connection.leave(asking.claim);
    if (!this.#task.isLeaving) this.#task.fail(error);
  }

  // For the task:

  positionOf(): undefined {
    return undefined;
  }

  leave(): Promise<void> | undefined {
    this.#uncount();
    const { asking } = this;
    this.asking = undefined;
    return asking?.withdraw();
  }

  #uncount(): void {
    const here = this.#waitsAt;
    if (here === undefined) return;
    this.#waitsAt = undefined;
    here.singleWaiters--;
    this.#connection.localNames.tidy(here);
  }
}
