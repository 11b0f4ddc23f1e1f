import { nowMs } from "../../core/clock.js";
import { AnswerTimer } from "../../engine-kit/request-timeout.js";
import type { RedlockNode } from "./node.js";

// What the replies of the nodes amount to. The first functions are arithmetic on votes, which the model of the protocol
// in test/engines/redlock/protocol uses as well. `askAll`, below, sends requests and has timers.

/** A grant needs this many votes: two sets of them always have a node in common. */
export function majorityOf(nodes: number): number {
  return Math.floor(nodes / 2) + 1;
}

/**
 * The ticket that votes with these tickets amount to: of m nodes that make a majority, the m-th lowest. At least a
 * majority drew no more than this, and one node of it had seen each earlier ticket; so this one is greater than all of
 * those. The greatest would do as well, but then a single clock that runs ahead would decide.
 */
export function agreedTicket(tickets: readonly number[], majority: number): number | undefined {
  return tickets.toSorted((a, b) => a - b)[majority - 1];
}

/** How many nodes have a counter that has reached the ticket: with a majority, no later one can be lower. */
export function countReached(tickets: readonly number[], ticket: number): number {
  return tickets.filter((drawn) => drawn >= ticket).length;
}

/** For how long a majority keeps what each of these nodes keeps for its time. */
export function majorityKeepsMs(timesMs: readonly number[], majority: number): number {
  return timesMs.toSorted((a, b) => b - a)[majority - 1] ?? 0;
}

/** When a majority may be free, if these nodes are after these times and `free` ones are now. */
export function majorityFreeInMs(timesMs: readonly number[], free: number, majority: number): number {
  if (free >= majority) return 0;
  return timesMs.toSorted((a, b) => a - b)[majority - free - 1] ?? Infinity;
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
 * It could be decided now, but further replies may improve the result: they are waited for until so much time has
 * passed since the question; without a number, for as long again as it took to come this far.
 */
export class Soon {
  constructor(readonly withinMs?: number) {}
}

export const SOON = new Soon();

export interface Question<A, T> {
  readonly nodes: readonly RedlockNode[];
  ask(node: RedlockNode): Promise<A>;
  readonly timeoutMs: number;
  /** What the replies so far amount to; `undefined`: wait. If it is `over`, no more replies come, and it must decide. */
  decide(replies: Replies<A>, over: boolean): T | Soon | undefined;
  /** What came after the decision. */
  late?(node: RedlockNode, answer: A): void;
}

const SHORTEST_GRACE_MS = 1;

/** Asks all nodes at once, and settles when `decide` has decided: at the latest after `timeoutMs` of running time. */
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
