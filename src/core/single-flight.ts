/** Work that callers share: one that comes while it is under way gets its outcome. */
export class SingleFlight<T> {
  #underWay: Promise<T> | undefined;

  /** For a caller that only waits for what has been begun. */
  get underWay(): Promise<T> | undefined {
    return this.#underWay;
  }

  run(work: () => Promise<T>): Promise<T> {
    this.#underWay ??= work().finally(() => {
      this.#underWay = undefined;
    });
    return this.#underWay;
  }
}

/**
 * For work whose outcome must not be older than its caller: a caller that comes while it is under way waits for the
 * next run, which begins when this one ends, and is shared by all that came meanwhile.
 */
export class FreshFlight<T> {
  #underWay: Promise<T> | undefined;
  #next: Promise<T> | undefined;

  get isIdle(): boolean {
    return this.#underWay === undefined;
  }

  run(work: () => Promise<T>): Promise<T> {
    if (this.#underWay === undefined) return this.#begin(work);
    const begin = () => this.#begin(work);
    this.#next ??= this.#underWay.then(begin, begin);
    return this.#next;
  }

  #begin(work: () => Promise<T>): Promise<T> {
    this.#next = undefined;
    const begun = work().finally(() => {
      if (this.#underWay === begun) this.#underWay = undefined;
    });
    this.#underWay = begun;
    return begun;
  }
}
