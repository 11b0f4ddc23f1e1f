/** What one node has said, or why it has said nothing. */
export type Reply<A> = { readonly answer: A } | { readonly error: unknown };

/** Nearly enough: the rest is waited for as long again as it took to come this far, and no longer. */
export const SOON = Symbol("soon");

export interface Question<N, A, T> {
  readonly nodes: readonly N[];
  ask(node: N): Promise<A>;
  readonly timeoutMs: number;
  /** What the replies so far amount to. When no more is to come, it has to say. */
  decide(replies: readonly (Reply<A> | undefined)[], over: boolean): T | typeof SOON | undefined;
  /** What came after the decision. */
  late?(node: N, answer: A): void;
  /** What a node that has not answered in time has to show for it. */
  silent(node: N): Error;
}

const SHORTEST_GRACE_MS = 1;

/** Asks all nodes at once, and settles as soon as their replies decide it: never later than its time. */
export function gather<N, A, T>(question: Question<N, A, T>): Promise<T> {
  const { nodes, timeoutMs, decide } = question;
  return new Promise((resolve, reject) => {
    const startMs = performance.now();
    const replies: (Reply<A> | undefined)[] = new Array(nodes.length).fill(undefined);
    let missing = nodes.length;
    let settled = false;
    let soon = false;
    const look = (over: boolean) => {
      let decision: T | typeof SOON | undefined;
      try {
        decision = decide(replies, over || missing === 0);
      } catch (error) {
        settled = true;
        clearTimeout(timer);
        return reject(error);
      }
      if (decision === undefined) return;
      if (decision === SOON) {
        if (soon) return;
        soon = true;
        clearTimeout(timer);
        const spentMs = performance.now() - startMs;
        timer = setTimeout(giveUp, Math.min(Math.max(spentMs, SHORTEST_GRACE_MS), timeoutMs - spentMs));
        return;
      }
      settled = true;
      clearTimeout(timer);
      resolve(decision);
    };
    const giveUp = () => {
      for (const [index, node] of nodes.entries()) replies[index] ??= { error: question.silent(node) };
      look(true);
    };
    let timer = setTimeout(giveUp, timeoutMs);
    for (const [index, node] of nodes.entries()) {
      question.ask(node).then(
        (answer) => {
          if (settled) return question.late?.(node, answer);
          replies[index] = { answer };
          missing--;
          look(false);
        },
        (error: unknown) => {
          if (settled) return;
          replies[index] = { error };
          missing--;
          look(false);
        },
      );
    }
  });
}
