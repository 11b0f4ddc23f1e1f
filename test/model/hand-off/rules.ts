import type { Answer, ClaimRequest, Notification, Renewal } from "#lib/core/backend.js";
import { ticketOf } from "#lib/core/claim.js";
import type { Grant } from "#lib/core/claim-state.js";
import type { Connection } from "#lib/core/connection.js";
import type { HeldClaim } from "#lib/core/held-claim.js";
import type { Lease } from "#lib/core/lease.js";
import type { Observer, Server } from "./engine.js";
import { budgetEndMs, type Task, type Told, ToldClaims } from "./told.js";
import type { Machine, World } from "./world.js";

// The invariants of the hand-off, judged from outside: by what was sent and heard, and by what leases say.

const SLACK_MS = 3;
const MOST_STEPS = 100_000;
/** So long an answer and a notification take at most, where nothing is late. */
const NOTICED_MS = 8;

interface Belief {
  readonly held: HeldClaim;
  readonly machine: Machine;
  readonly fromMs: number;
  untilMs: number;
}

export class Rules implements Observer {
  readonly tasks = new Set<Task>();
  readonly processes = new Map<Machine, Connection>();
  readonly trace: string[] = [];
  server!: Server;
  steps = 0;
  handOffs = 0;
  idleUses = 0;
  readonly #claims = new ToldClaims();
  readonly #tokens = new Map<string, Set<bigint>>();
  readonly #lastToken = new Map<string, bigint>();
  readonly #beliefs = new Map<HeldClaim, Belief>();
  readonly #recent: Belief[] = [];

  constructor(
    readonly world: World,
    /** Nothing is lost or late, and no process stops between two looks at its clock. */
    readonly isQuiet: boolean,
    readonly stopsAnywhere: boolean,
  ) {}

  note(text: string): void {
    this.trace.push(`${this.world.nowMs.toFixed(3)} ${text}`);
  }

  /** What was broken first: where it is found, the code under test may swallow the error. */
  failure: Error | undefined;

  broken(rule: string): never {
    const lines = this.trace.slice(-(Number(process.env.HAND_OFF_TRACE) || 60));
    this.failure ??= new Error(`${rule}\n${lines.join("\n")}`);
    throw this.failure;
  }

  #must(holds: boolean, rule: () => string): void {
    if (!holds) this.broken(rule());
  }

  // What a process asks and hears:

  answered(machine: Machine, request: ClaimRequest, answer: Answer, sentMs: number): void {
    const ticket = "ticket" in answer ? answer.ticket : "";
    this.note(`P${machine.id} hears ${answer.state} ${ticket} ${request.id.slice(0, 4)}`);
    this.#claims.answered(machine, request, answer, sentMs);
  }

  renewed(machine: Machine, id: string, answer: Renewal, sentMs: number): void {
    this.note(`P${machine.id} renewed ${answer.state} ${id.slice(0, 4)}`);
    this.#claims.renewed(machine, id, answer, sentMs);
  }

  notified(machine: Machine, id: string, notification: Notification | undefined): void {
    this.note(`P${machine.id} is told ${notification?.state ?? "to ask"} ${id.slice(0, 4)}`);
    if (notification !== undefined) this.#claims.notified(machine, id, notification);
  }

  releases(machine: Machine, id: string, ending: unknown): void {
    this.note(`P${machine.id} releases ${id.slice(0, 4)} ${ending ?? ""}`);
    const told = this.#claims.get(id);
    if (told !== undefined) told.isReleased = true;
    for (const held of this.#grantsOf(machine)) {
      const isLive = held.claim.id === id && this.world.look(machine, () => held.live);
      this.#must(!isLive, () => `a claim is released under the lease ${held.token}`);
    }
  }

  #grantsOf(machine: Machine): HeldClaim[] {
    const grants: Iterable<Grant> = this.processes.get(machine)?.grants ?? [];
    return [...grants] as HeldClaim[];
  }

  // What a task hears:

  granted(task: Task, lease: Lease): void {
    const { heldClaim, token } = lease;
    const { claim, grantedAtMs: atMs } = heldClaim;
    const { machine } = task;
    this.note(`P${machine.id} t${task.id} granted ${token} (${ticketOf(token)}) ${claim.id.slice(0, 4)}`);
    task.lease = lease;
    const told = this.#claims.get(claim.id);
    if (told === undefined) this.broken(`t${task.id} was granted a claim of which nothing was heard`);
    const number = Number(token % 1024n);
    this.#tokenGrows(task, token, claim.id);
    this.#must(
      ticketOf(token) === claim.ticket,
      () => `the token ${token} is not of the ticket ${claim.ticket}`,
    );
    this.#must(!told.isReleased, () => `t${task.id} was granted a claim that was given back before`);
    this.#must(
      task.cancelledAt === undefined || task.cancelledAt >= this.steps,
      () => `t${task.id} had cancelled`,
    );
    if (!this.stopsAnywhere)
      this.#must(atMs < told.trustedUntilMs, () => `t${task.id} got a claim that is over`);
    if (number > 0) this.#handedOff(task, told, atMs, number);
    told.grantedMs ??= atMs;
    told.last = task;
    this.#inOrder(task);
  }

  #tokenGrows({ id, name }: Task, token: bigint, claimId: string): void {
    const tokens = this.#tokens.get(name) ?? new Set();
    this.#tokens.set(name, tokens);
    this.#must(!tokens.has(token), () => `t${id} was given the token ${token} again`);
    tokens.add(token);
    const last = this.#lastToken.get(name) ?? 0n;
    const grows = token > last || this.server.takenAway.has(claimId);
    this.#must(grows, () => `t${id} was given ${token} after ${last}`);
    if (token > last) this.#lastToken.set(name, token);
  }

  #handedOff(task: Task, told: Told, atMs: number, number: number): void {
    this.handOffs++;
    const { last } = told;
    if (last === undefined) return;
    const before = last.lease?.heldClaim;
    this.#must(before?.ended === true, () => `t${task.id} was handed the claim that t${last.id} holds`);
    this.#must(
      before?.lost === undefined,
      () => `t${task.id} was handed the claim that t${last.id} had lost`,
    );
    this.#must(number <= 1023, () => `the number ${number}`);
    if (this.stopsAnywhere) return;
    const limitMs = (before?.grantedAtMs ?? 0) + last.maxHoldMs;
    this.#must(atMs < limitMs, () => `t${task.id} was handed the claim that t${last.id} held for too long`);
    const restMs = told.trustedUntilMs - atMs;
    this.#must(restMs >= told.longestMs / 3 - 0.001, () => `t${task.id} was handed a rest of ${restMs} ms`);
    this.#must(atMs < budgetEndMs(told), () => `t${task.id} was handed a claim whose budget is spent`);
    const deadlineMs = task.cameMs + task.waitMs;
    this.#must(
      task.waitMs === 0 || atMs < deadlineMs,
      () => `t${task.id} was handed a claim after its deadline`,
    );
  }

  #inOrder(task: Task): void {
    if (!task.shares) return;
    for (const other of this.tasks) {
      if (other === task) return;
      if (other.machine !== task.machine || other.name !== task.name) continue;
      if (!other.shares || other.ttlMs !== task.ttlMs || other.isOver || other.lease !== undefined) continue;
      if (other.cancelledAt !== undefined || task.machine.localMs >= other.cameMs + other.waitMs) continue;
      this.broken(`t${task.id} was granted before t${other.id}, which came earlier`);
    }
  }

  /** Its `acquire` has rejected. */
  rejected(task: Task, error: unknown): void {
    const { id, machine, signal } = task;
    const code = (error as { code?: string }).code;
    this.note(`P${machine.id} t${id} rejected ${code ?? error}`);
    const { localMs } = machine;
    if (signal?.aborted && error === signal.reason) return;
    if (code === "timeout")
      this.#must(localMs >= task.cameMs + task.waitMs, () => `t${id} was sent away before its time`);
    else if (code === "closed")
      this.#must(this.processes.get(machine)?.closing.aborted === true, () => `t${id} was closed`);
    else if (code === "lost" && this.stopsAnywhere) return;
    else this.#must(code === "backend" && !this.isQuiet, () => `t${id} was rejected: ${error}`);
  }

  refused(task: Task): void {
    this.note(`P${task.machine.id} t${task.id} refused`);
    const freeMs = this.server.freeSinceMs.get(task.name);
    const wasFree = this.isQuiet && freeMs !== undefined && freeMs < task.cameMs / task.machine.rate;
    this.#must(!wasFree, () => `t${task.id} was refused a lock that was free`);
  }

  /** Its lease has aborted. */
  lost(task: Task, reason: { loss?: string }): void {
    const { id, machine, lease } = task;
    this.note(`P${machine.id} t${id} lost: ${reason.loss}`);
    const held = lease?.heldClaim;
    const told = held && this.#claims.get(held.claim.id);
    if (held === undefined || told === undefined) return;
    const { loss } = reason;
    const isLast = told.last === task;
    this.#must(isLast, () => `t${id} was told of a loss when it held no more`);
    if (loss === "expired" || loss === "paused") {
      const untilMs = Math.min(told.trustedUntilMs, held.grantedAtMs + task.maxHoldMs);
      // A process that is stopped between looking at its clock and sending a request trusts the answer less.
      if (!this.stopsAnywhere)
        this.#must(machine.localMs >= untilMs, () => `t${id} was told of an end that was not its own`);
    } else if (loss === "forced" || loss === "taken") {
      // A late request may have brought its id into the queue again, with another ticket.
      const isThere = this.server.queues.get(told.name)?.find(held.claim.id)?.ticket === held.ticket;
      this.#must(!isThere, () => `t${id} was told that its claim is gone`);
    } else this.#must(loss === "closed", () => `t${id} lost by ${loss}`);
  }

  // After each step:

  check(): void {
    this.steps++;
    if (this.failure !== undefined) throw this.failure;
    if (this.steps > MOST_STEPS) this.broken("time stands still");
    if (this.isQuiet) this.#usesGrants();
    for (const [machine, connection] of this.processes)
      if (!machine.isDead) this.#checkProcess(machine, connection);
  }

  #checkProcess(machine: Machine, connection: Connection): void {
    const { atMs, localMs } = machine;
    const live = new Map<string, HeldClaim>();
    for (const held of this.#grantsOf(machine)) {
      if (!this.world.look(machine, () => held.live)) continue;
      const other = live.get(held.name);
      this.#must(other === undefined, () => `${held.token} and ${other?.token} are live in one process`);
      live.set(held.name, held);
      this.#isJustified(held, localMs);
      this.#believes(held, machine, atMs);
    }
    if (connection.closing.aborted) return;
    for (const name of ["a", "b"]) this.#checkName(connection, machine, name, live.get(name));
  }

  /** A process that is let in by the server notices that as soon as the notification has arrived. */
  #usesGrants(): void {
    for (const { claims } of this.server.queues.values()) {
      const [first] = claims;
      const told = first && this.#claims.get(first.id);
      if (told === undefined || first?.grantedAtMs === undefined || told.grantedMs !== undefined) continue;
      const waitedMs = this.world.nowMs - Math.max(first.grantedAtMs, told.machine.busyUntilMs);
      this.#must(told.isReleased || waitedMs <= NOTICED_MS, () => `the grant of ${first.ticket} is not used`);
    }
  }

  #isJustified(held: HeldClaim, localMs: number): void {
    const told = this.#claims.get(held.claim.id);
    if (told === undefined) this.broken(`a lease ${held.token} without a claim`);
    this.#must(localMs < told.trustedUntilMs, () => `${held.token} is live though its claim is over`);
    this.#must(!told.isGone, () => `${held.token} is live though its process has heard that it is gone`);
    const limitMs = held.grantedAtMs + held.request.maxHoldMs;
    this.#must(localMs < limitMs, () => `${held.token} is live for longer than its maxHold`);
  }

  #believes(held: HeldClaim, machine: Machine, atMs: number): void {
    const known = this.#beliefs.get(held);
    const belief = known ?? { held, machine, fromMs: atMs, untilMs: atMs };
    belief.untilMs = atMs;
    if (known === undefined) {
      this.#beliefs.set(held, belief);
      this.#recent.push(belief);
    }
    for (const other of this.#recent) {
      if (other.held === held || other.held.name !== held.name || other.machine === machine) continue;
      if (!(other.fromMs < belief.untilMs && belief.fromMs < other.untilMs)) continue;
      const isTaken = [other, belief].some(({ held: { claim } }) => this.server.takenAway.has(claim.id));
      this.#must(isTaken, () => `two holders: ${other.held.token} and ${held.token}`);
    }
    while ((this.#recent[0]?.untilMs ?? Infinity) < this.world.nowMs - 20_000) this.#recent.shift();
  }

  /** No task without a claim, and no claim without a task. */
  #checkName(connection: Connection, machine: Machine, name: string, live: HeldClaim | undefined): void {
    const here = connection.localNames.find(name);
    if (here === undefined) return;
    for (const queue of here.queues as unknown as Iterable<LocalQueueView>) {
      const { asking, isBetweenTasks, ttlMs } = queue;
      const grants = this.#grantsOf(machine).filter(
        (held) => held.name === name && held.claim.ttlMs === ttlMs,
      );
      const holder = grants.find(
        (held) => held.shared !== undefined && queue.knownOf(held.ticket) !== undefined,
      );
      const wanting = this.#wanting(machine, name, ttlMs);
      const isNeeded = asking === undefined || this.#unsettled(machine, name, ttlMs);
      // Stopped in the middle of a re-entry, a process may ask as a stranger, by a call that is no task here.
      this.#must(isNeeded || this.stopsAnywhere, () => `P${machine.id} ${name}: a claim waits for no task`);
      if (wanting > 0 && asking === undefined && connection.backend.traits.queueing) {
        const isServed = holder !== undefined || isBetweenTasks;
        this.#must(isServed, () => `P${machine.id} ${name}: ${wanting} tasks wait without a claim`);
        const told = holder && this.#claims.get(holder.claim.id);
        const isLate =
          told &&
          machine.localMs > Math.max(budgetEndMs(told), machine.busyUntilMs * machine.rate) + SLACK_MS;
        if (!this.stopsAnywhere && live === holder)
          this.#must(!isLate, () => `P${machine.id} ${name}: tasks have no place after the budget`);
      }
      for (const [id, told] of this.#claims.all) {
        if (told.machine !== machine || told.name !== name || told.isReleased || told.ticket === undefined)
          continue;
        if (queue.knownOf(told.ticket)?.isIdle !== true) continue;
        this.idleUses++;
        this.#must(wanting === 0, () => `P${machine.id} ${name}: tasks wait beside an idle claim`);
        this.#must(told.wantedMs === undefined, () => `P${machine.id} keeps an idle claim that is wanted`);
        this.#must(!told.isGone, () => `P${machine.id} keeps an idle claim that is gone`);
        this.#must(told.tells, () => `P${machine.id} keeps a claim idle that had waited`);
        this.#keepsNoneWaiting(machine, name, id);
      }
    }
  }

  /** The tasks that wait for a shared claim, or are about to hear why they did not get it. */
  #waiting(machine: Machine, name: string, ttlMs: number): Task[] {
    return [...this.tasks].filter(
      (task) =>
        task.machine === machine &&
        task.name === name &&
        task.ttlMs === ttlMs &&
        task.mayShare &&
        !task.isOver &&
        task.lease === undefined,
    );
  }

  #unsettled(machine: Machine, name: string, ttlMs: number): boolean {
    return this.#waiting(machine, name, ttlMs).length > 0;
  }

  /** How many of them want it, and have time left. */
  #wanting(machine: Machine, name: string, ttlMs: number): number {
    return this.#waiting(machine, name, ttlMs).filter(
      ({ shares, cancelledAt, cameMs, waitMs }) =>
        shares && cancelledAt === undefined && machine.localMs < cameMs + waitMs,
    ).length;
  }

  /** An idle claim has no claim of another process behind it for longer than a notification takes. */
  #keepsNoneWaiting(machine: Machine, name: string, id: string): void {
    const { claims = [] } = this.server.queues.get(name) ?? {};
    const index = claims.findIndex((claim) => claim.id === id);
    const next = index === -1 ? undefined : claims[index + 1];
    const waitedMs = next === undefined ? 0 : this.world.nowMs - Math.max(next.cameAtMs, machine.busyUntilMs);
    const mostMs = this.isQuiet ? NOTICED_MS : Infinity;
    this.#must(waitedMs <= mostMs, () => `an idle claim keeps ${next?.ticket} waiting for ${waitedMs} ms`);
  }

  /** All is over: nothing is left behind. */
  checkEnd(): void {
    for (const task of this.tasks)
      this.#must(task.isOver || task.machine.isDead, () => `t${task.id} never ended`);
    for (const [machine, connection] of this.processes) {
      if (machine.isDead || connection.closed) continue;
      const { waits, grants, localNames } = connection;
      const left = waits.size + grants.size + ["a", "b"].filter((name) => localNames.find(name)).length;
      this.#must(left === 0, () => `P${machine.id} has something left: ${waits.size} ${grants.size}`);
    }
    for (const { name, claims } of this.server.queues.values()) {
      this.server.at(name, () => undefined);
      this.#must(
        claims.length === 0,
        () => `${claims.length} claims are left at the server: ${claims.map(({ ticket }) => ticket)}`,
      );
    }
  }
}

interface LocalQueueView {
  readonly asking: unknown;
  readonly isBetweenTasks: boolean;
  readonly ttlMs: number;
  knownOf(ticket: bigint): { readonly isIdle?: boolean } | undefined;
}
