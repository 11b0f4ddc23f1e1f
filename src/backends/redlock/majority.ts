import { nowMs } from "../../core/clock.js";
import { AnswerTimer } from "../../engine-kit/request-timeout.js";
import type { RedlockNode } from "./node.js";

// What a majority has decided. Pure: the model check in test/engines/redlock explores what follows from it.

/** A grant needs this many votes: two sets of them always have a node in common. */
export function majorityOf(nodes: number): number {
  return Math.floor(nodes / 2) + 1;
}

/**
 * The ticket that votes with these tickets amount to, once a majority has voted: greater than all tickets
 * handed out before, because it is not lower than those of a majority, and one of that majority has seen each
 * earlier one. Not simply the greatest: so a minority of clocks that are wrong has no say where all have voted.
 */
export function ticketOf(tickets: readonly number[], majority: number): number | undefined {
  return tickets.toSorted((a, b) => a - b)[majority - 1];
}

/** How many nodes have a counter that has reached the ticket: with a majority, no later one can be lower. */
export function reached(tickets: readonly number[], ticket: number): number {
  return tickets.filter((drawn) => drawn >= ticket).length;
}

/** For how long a majority keeps what each of these nodes keeps for its time. */
export function keptBy(times: readonly number[], majority: number): number {
  return times.toSorted((a, b) => b - a)[majority - 1] ?? 0;
}

/** In what time a majority may have room, if these nodes have it in these times and `free` ones have it now. */
export function roomIn(times: readonly number[], free: number, majority: number): number {
  if (free >= majority) return 0;
  return times.toSorted((a, b) => a - b)[majority - free - 1] ?? Infinity;
}

/** What one node has said, or why it has said nothing. */
export type Reply<A> = { readonly answer: A } | { readonly error: unknown };

/** In the order of the nodes; `undefined` for one that may still answer. */
export type Replies<A> = readonly (Reply<A> | undefined)[];

export function answerIn<A>(reply: Reply<A> | undefined): A | undefined {
  return reply !== undefined && "answer" in reply ? reply.answer : undefined;
}

export function answersIn<A>(replies: Replies<A>): readonly A[] {
  return replies.flatMap((reply) => (reply !== undefined && "answer" in reply ? [reply.answer] : []));
}

/**
 * Nearly enough: the rest is waited for until so much time has passed since the question; without a number, for
 * as long again as it took to come this far.
 */
export class Soon {
  constructor(readonly withinMs?: number) {}
}

export const SOON = new Soon();

export interface Question<A, T> {
  readonly nodes: readonly RedlockNode[];
  ask(node: RedlockNode): Promise<A>;
  readonly timeoutMs: number;
  /** What the replies so far amount to. When no more is to come, it has to say. */
  decide(replies: Replies<A>, over: boolean): T | Soon | undefined;
  /** What came after the decision. */
  late?(node: RedlockNode, answer: A): void;
}

const SHORTEST_GRACE_MS = 1;

/** Asks all nodes at once, and settles as soon as their replies decide it: never later than its time. */
export function askAll<A, T>(question: Question<A, T>): Promise<T> {
  const { nodes, timeoutMs, decide } = question;
  return new Promise((resolve, reject) => {
    const startMs = nowMs();
    let untilMs = startMs + timeoutMs;
    const replies: (Reply<A> | undefined)[] = new Array(nodes.length).fill(undefined);
    let missing = nodes.length;
    let settled = false;
    const settle = () => {
      settled = true;
      timer.stop();
    };
    const look = (over: boolean) => {
      try {
        const decision = decide(replies, over || missing === 0);
        if (decision === undefined) return;
        if (decision instanceof Soon) return hurry(decision);
        settle();
        resolve(decision);
      } catch (error) {
        settle();
        reject(error);
      }
    };
    const hurry = ({ withinMs }: Soon) => {
      const atMs = nowMs();
      const soonMs =
        withinMs === undefined ? atMs + Math.max(atMs - startMs, SHORTEST_GRACE_MS) : startMs + withinMs;
      if (soonMs >= untilMs) return;
      untilMs = soonMs;
      timer.stop();
      timer = new AnswerTimer(Math.max(0, soonMs - atMs), giveUp);
    };
    const giveUp = () => {
      for (const [index, node] of nodes.entries()) replies[index] ??= { error: node.silence() };
      look(true);
    };
    let timer = new AnswerTimer(timeoutMs, giveUp);
    const take = (index: number, reply: Reply<A>) => {
      replies[index] = reply;
      missing--;
      look(false);
    };
    for (const [index, node] of nodes.entries()) {
      question.ask(node).then(
        (answer) => (settled ? question.late?.(node, answer) : take(index, { answer })),
        (error: unknown) => {
          if (!settled) take(index, { error });
        },
      );
    }
  });
}
