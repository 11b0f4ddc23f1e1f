import type { ClaimRequest, Gone } from "../../core/backend.js";
import { nowMs } from "../../core/clock.js";
import { startTimer } from "../../core/timer.js";
import { bitIn } from "../../engine-kit/replies.js";
import { failuresOf, type Report } from "./errors.js";
import { clearestOf } from "./existing-claims.js";
import {
  agreedTicket,
  answerIn,
  askAll,
  countReached,
  majorityFreeInMs,
  majorityKeepsMs,
  majorityOf,
  type Replies,
  SOON,
  Soon,
} from "./majority.js";
import { type RedlockNode, SCRIPTS } from "./node.js";
import type { Vote } from "./replies.js";

/** An attempt that comes to nothing is seldom older than this. */
const ATTEMPT_MS = 200;

/** So long an attempt that shares the votes with another attempt waits at least for a server that has not answered. */
const SPLIT_MS = 5;

const NOT_THERE = "it has voted, and has lost the vote again";

/** A holder asks again, less and less often, for votes that another attempt had: it gives them back soon. */
const FIRST_AGAIN_MS = 5;

/** What one attempt asks of every node. */
export interface Candidate {
  readonly request: ClaimRequest;
  readonly keys: readonly string[];
  readonly args: readonly string[];
  readonly attempt: number;
  readonly timeoutMs: number;
  readonly retentionMs: number;
  /** Whether the caller still wants what was granted. */
  wanted(): boolean;
  /** A node that had not been heard when it was refused would have voted for it. */
  freed(): void;
  /** Tells a node once more that the holder has left: its minHold goes on. */
  leave(node: RedlockNode): void;
  /** Gives back what a node has granted to an attempt that came to nothing. */
  withdraw(node: RedlockNode): void;
}

export type Result =
  | { readonly state: "granted"; readonly ticket: number; readonly remainingMs: number }
  /**
   * Enough nodes voted, but not for us. `held`: one other claim has a majority; else votes were split. `free`: so
   * many nodes had voted for no other claim.
   */
  | { readonly state: "refused"; readonly held: boolean; readonly free: number; readonly changeInMs: number }
  | { readonly state: "max-ttl"; readonly agreedMs: number }
  /** `elected`: a majority had voted for us, and then part of it was gone. */
  | { readonly state: "no-quorum"; readonly reports: readonly Report[]; readonly elected: boolean }
  | Gone;

type Granted = Extract<Vote, { state: "granted" }>;
type Refusal = Extract<Vote, { state: "refused" }>;
type Votes = ReadonlyMap<RedlockNode, Granted>;
/** A majority has voted for us; and these have for others. */
type Elected = {
  readonly state: "elected";
  readonly votes: Votes;
  readonly others: [RedlockNode, Refusal][];
};

/** One attempt to get a majority of the nodes: all are asked at once. */
export class ClaimAttempt {
  readonly #nodes: readonly RedlockNode[];
  readonly #majority: number;
  readonly #candidate: Candidate;
  /** The ticket that it has already: then nothing new is made, and there is nothing to take back. */
  readonly #known: number | undefined;
  readonly #startMs = nowMs();
  readonly #latecomers: [RedlockNode, Vote][] = [];
  #result: Result | undefined;

  constructor(nodes: readonly RedlockNode[], candidate: Candidate) {
    this.#nodes = nodes;
    this.#majority = majorityOf(nodes.length);
    this.#candidate = candidate;
    const { ticket } = candidate.request;
    this.#known = ticket === undefined ? undefined : Number(ticket);
  }

  async run(): Promise<Result> {
    const outcome = await askAll<Vote, Elected | Result>({
      nodes: this.#nodes,
      ask: (node) => this.#ask(node),
      timeoutMs: this.#candidate.timeoutMs,
      decide: (replies, over) => this.#decide(replies, over),
      late: (node, vote) => this.#late(node, vote),
    });
    if (outcome.state === "elected") this.#latecomers.push(...outcome.others);
    const result = outcome.state === "elected" ? await this.#handOut(outcome.votes) : outcome;
    this.#result = result;
    for (const [node, vote] of this.#latecomers) this.#late(node, vote);
    return result;
  }

  #ask(node: RedlockNode): Promise<Vote> {
    const { keys, args, request } = this.#candidate;
    return node.vote(keys, args, Math.max(request.ttlMs, request.minHoldMs));
  }

  #decide(replies: Replies<Vote>, over: boolean): Elected | Result | Soon | undefined {
    const votes = new Map<RedlockNode, Granted>();
    const others: [RedlockNode, Refusal][] = [];
    const losses: Gone[] = [];
    const young: Report[] = [];
    let disagreeing: Result | undefined;
    for (const [index, node] of this.#nodes.entries()) {
      const vote = answerIn(replies[index]);
      if (vote?.state === "granted") votes.set(node, vote);
      else if (vote?.state === "refused") others.push([node, vote]);
      else if (vote?.state === "gone") losses.push(vote);
      else if (vote?.state === "young") young.push({ node, votesInMs: vote.votesInMs });
      else if (vote?.state === "max-ttl") disagreeing = vote;
    }
    // The votes may be of nodes that have forgotten claims that others rely on.
    if (disagreeing !== undefined) return this.#lost(replies, disagreeing);
    const majority = this.#majority;
    const minority = this.#nodes.length - majority;
    if (votes.size >= majority) {
      const tickets = [...votes.values()].map(({ ticket }) => ticket);
      const ticket = agreedTicket(tickets, majority);
      const confirmed = ticket !== undefined && countReached(tickets, ticket) >= majority;
      // The rest may confirm it, for less than a second phase costs.
      return over || confirmed || this.#known !== undefined ? { state: "elected", votes, others } : SOON;
    }
    if (losses.length > minority) return clearestOf(losses);
    const refusals = others.map(([, refusal]) => refusal);
    const lost = refusals.length > minority;
    if (!lost && !over) return this.#isSplit(votes.size, refusals) ? this.#splitSoon() : undefined;
    if (lost || refusals.length + votes.size >= majority) {
      const held = this.#isHeld(refusals, this.#nodes.length - votes.size - refusals.length);
      // Split votes, or a lock that is just being released, mean a shorter wait: the other nodes may tell.
      if ((!held || this.#candidate.request.queue) && !over) return SOON;
      const times = refusals.map(({ changeInMs }) => changeInMs);
      const changeInMs = majorityFreeInMs(times, votes.size, majority);
      return this.#lost(replies, { state: "refused", held, free: votes.size, changeInMs });
    }
    const reports = [...failuresOf(this.#nodes, replies), ...young];
    return this.#lost(replies, { state: "no-quorum", reports, elected: false });
  }

  /**
   * One more refusal and it is lost, and what has refused it has voted for attempts that are as young: they wait for the
   * same server. A server that stands still would let all of them wait for the whole time. An older vote is that of a
   * holder, or was left behind; then all servers are needed, also those that are slow.
   */
  #isSplit(votes: number, refusals: readonly Refusal[]): boolean {
    const minority = this.#nodes.length - this.#majority;
    if (votes + refusals.length < this.#majority || refusals.length < minority) return false;
    return minority > 0 && refusals.every(({ ageMs }) => ageMs < ATTEMPT_MS);
  }

  /** For as long again as it took to come this far, or a little longer. */
  #splitSoon(): Soon {
    const tookMs = nowMs() - this.#startMs;
    return new Soon(tookMs + Math.max(tookMs, SPLIT_MS));
  }

  /** One other claim has a majority; or may have it, with nodes of which nothing is known, and has had it for long. */
  #isHeld(refusals: readonly Refusal[], unknown: number): boolean {
    return refusals.some(({ by, ageMs }) => {
      const votes = refusals.filter((other) => other.by === by).length;
      return votes + (ageMs < ATTEMPT_MS ? 0 : unknown) >= this.#majority;
    });
  }

  /** An attempt that is not elected gives back its votes at once, also to nodes that have not answered yet. */
  #lost(replies: Replies<Vote>, result: Result): Result {
    if (this.#known !== undefined) return result;
    for (const [index, node] of this.#nodes.entries()) {
      const vote = answerIn(replies[index]);
      // In an outage the next attempt finds a vote that was not heard of, and a caller that gives up tells all nodes.
      const unheard = vote === undefined && result.state === "refused";
      if (unheard || vote?.state === "granted") this.#candidate.withdraw(node);
    }
    return result;
  }

  /** A majority's counters must have reached the ticket: where they have not, there is a second phase. */
  async #handOut(votes: Votes): Promise<Result> {
    const majority = this.#majority;
    const drawn = [...votes.values()];
    const tickets = drawn.map(({ ticket }) => ticket);
    const ticket = this.#known ?? agreedTicket(tickets, majority) ?? 0;
    const needed = majority - countReached(tickets, ticket);
    const behind = needed > 0 ? this.#nodes.filter((node) => (votes.get(node)?.ticket ?? 0) < ticket) : [];
    const failures = needed > 0 ? await this.#raise(behind, votes, ticket, needed) : [];
    if (failures.length > 0) {
      for (const node of this.#nodes) this.#candidate.withdraw(node);
      return { state: "no-quorum", reports: failures, elected: true };
    }
    // The claim shows the same ticket everywhere, but no caller has to wait for that. Not before it is handed out:
    // another attempt that finds a lower one than was drawn may amount to less than what others got meanwhile.
    for (const [node, vote] of votes)
      if (vote.ticket !== ticket && !behind.includes(node)) this.#settle(node, ticket).catch(() => undefined);
    const times = drawn.map(({ remainingMs }) => remainingMs);
    return { state: "granted", ticket, remainingMs: majorityKeepsMs(times, majority) };
  }

  /** Raises counters until so many more have reached the ticket, or says why not. */
  #raise(
    behind: readonly RedlockNode[],
    votes: Votes,
    ticket: number,
    needed: number,
  ): Promise<readonly Report[]> {
    const voters = behind.filter((node) => votes.has(node));
    return askAll({
      // Also those that were not heard in time: they may have voted meanwhile.
      nodes: behind,
      ask: (node) => this.#settle(node, ticket, "raise"),
      timeoutMs: this.#candidate.timeoutMs,
      decide: (replies, over) => {
        const settled = replies.filter(answerIn);
        if (settled.length >= needed) return [];
        const told = voters.map((node) => replies[behind.indexOf(node)]);
        if (!over) return told.includes(undefined) ? undefined : SOON;
        const lost = voters.filter((_, index) => answerIn(told[index]) === false);
        return [...failuresOf(voters, told), ...lost.map((node) => ({ node, error: NOT_THERE }))];
      },
    });
  }

  #settle(node: RedlockNode, ticket: number, ...how: "raise"[]): Promise<boolean> {
    const { keys, request, attempt, retentionMs } = this.#candidate;
    const args = [request.id, String(attempt), String(ticket), String(retentionMs), ...how];
    return node.run(SCRIPTS.settle, keys.slice(0, 2), args, bitIn);
  }

  /** A vote that came when everything was decided: it joins what was granted, or is given back. */
  #late(node: RedlockNode, vote: Vote): void {
    const result = this.#result;
    if (this.#known !== undefined) return;
    // While the second phase is under way without it, the result is not known yet.
    if (result === undefined) {
      this.#latecomers.push([node, vote]);
    } else if (vote.state === "refused") {
      if (result.state === "granted") this.#askAgain(node);
    } else if (vote.state !== "granted") {
      return;
    } else if (result.state === "granted" && this.#candidate.wanted()) {
      if (vote.ticket !== result.ticket) this.#settle(node, result.ticket).catch(() => undefined);
    } else if (result.state === "granted") {
      // The holder has released meanwhile, and has told this node; but before its claim, if that was sent late.
      if (vote.sentLate) this.#candidate.leave(node);
    } else {
      // So has an attempt that was refused.
      if (result.state !== "refused" || vote.sentLate) this.#candidate.withdraw(node);
      if (result.state === "refused") this.#candidate.freed();
    }
  }

  /**
   * The node had voted for an attempt that came to nothing. A lease that is on just a majority is lost with one of
   * them; and if that node's clock jumps, a second holder is let in while the first one still believes.
   */
  #askAgain(node: RedlockNode, inMs = FIRST_AGAIN_MS): void {
    const ask = async () => {
      // Not for what may be over.
      if (!this.#candidate.wanted() || nowMs() > this.#startMs + this.#candidate.timeoutMs) return;
      const vote = await this.#ask(node).catch(() => undefined);
      if (vote?.state === "refused") this.#askAgain(node, 2 * inMs);
      else if (vote !== undefined) this.#late(node, vote);
    };
    startTimer(ask, inMs).unref();
  }
}
