import type { Connection } from "../core/connection.js";
import { Turns } from "../core/turns.js";

const ofConnections = new WeakMap<Connection, InOrder>();

/** The same for everybody who uses that connection. */
export function inOrderOf(connection: Connection): InOrder {
  const known = ofConnections.get(connection) ?? new InOrder(connection);
  ofConnections.set(connection, known);
  return known;
}

/** Requests for one name come to the engine in the order in which they are made, whatever way each of them takes. */
class InOrder {
  readonly #connection: Connection;
  readonly #names = new Map<string, { readonly turns: Turns; requests: number }>();

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** `ask` says when its first question is answered: then it stands in line, and the next one may come. */
  async enter<T>(
    name: string,
    signal: AbortSignal | undefined,
    ask: (onAnswer: () => void) => Promise<T>,
  ): Promise<T> {
    const line = this.#names.get(name) ?? { turns: new Turns(), requests: 0 };
    this.#names.set(name, line);
    line.requests++;
    let endTurn: (() => void) | undefined;
    const onAnswer = () => {
      endTurn?.();
      endTurn = undefined;
    };
    try {
      endTurn = await line.turns.take(Infinity, signal, () => this.#connection.closing);
      return await ask(onAnswer);
    } finally {
      onAnswer();
      if (--line.requests === 0) this.#names.delete(name);
    }
  }
}
