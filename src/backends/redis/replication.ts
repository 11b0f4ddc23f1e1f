/**
 * One question for all grants that are under way: it is asked after each of them was written, and covers all
 * that was written before it. While a replica is missing, each question blocks its connection.
 */
export class Replication {
  #asked: Promise<number> | undefined;
  #next: Promise<number> | undefined;

  /** How many replicas have all that was written until now. */
  seen(ask: () => Promise<number>): Promise<number> {
    if (this.#asked === undefined) return this.#ask(ask);
    // The question that is out may have been asked before our grant was written.
    this.#next ??= this.#asked.then(
      () => this.#ask(ask),
      () => this.#ask(ask),
    );
    return this.#next;
  }

  #ask(ask: () => Promise<number>): Promise<number> {
    this.#next = undefined;
    const asked = ask().finally(() => {
      if (this.#asked === asked) this.#asked = undefined;
    });
    this.#asked = asked;
    return asked;
  }
}
