import { nowMs } from "../../core/clock.js";
import { AnswerTimer } from "../../engine-kit/request-timeout.js";

/** What one node has said, or why it has said nothing. */
export type Reply<A> = { readonly answer: A } | { readonly error: unknown };

/**
 * Nearly enough: the rest is waited for until so much time has passed since the question; without a number, for
 * as long again as it took to come this far.
 */
export class Soon {
  constructor(readonly withinMs?: number) {}
}

export const SOON = new Soon();

export interface Question<N, A, T> {
  readonly nodes: readonly N[];
  ask(node: N): Promise<A>;
  readonly timeoutMs: number;
  /** What the replies so far amount to. When no more is to come, it has to say. */
  decide(replies: readonly (Reply<A> | undefined)[], over: boolean): T | Soon | undefined;
  /** What came after the decision. */
  late?(node: N, answer: A): void;
  /** What a node that has not answered in time has to show for it. */
  silent(node: N): Error;
}

const SHORTEST_GRACE_MS = 1;

/** Asks all nodes at once, and settles as soon as their replies decide it: never later than its time. */
export function askAll<N, A, T>(question: Question<N, A, T>): Promise<T> {
  const { nodes, timeoutMs, decide } = question;
  return new Promise((resolve, reject) => {
    const startMs = nowMs();
    let untilMs = startMs + timeoutMs;
    const replies: (Reply<A> | undefined)[] = new Array(nodes.length).fill(undefined);
    let missing = nodes.length;
    let settled = false;
    const look = (over: boolean) => {
      let decision: T | Soon | undefined;
      try {
        decision = decide(replies, over || missing === 0);
      } catch (error) {
        settled = true;
        timer.stop();
        return reject(error);
      }
      if (decision === undefined) return;
      if (decision instanceof Soon) return hurry(decision);
      settled = true;
      timer.stop();
      resolve(decision);
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
      for (const [index, node] of nodes.entries()) replies[index] ??= { error: question.silent(node) };
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
