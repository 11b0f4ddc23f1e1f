/** Pauses between attempts that fail: the first one, then each twice as long, up to the longest. */
export class Backoff {
  readonly #firstMs: number;
  readonly #longestMs: number;
  #failures = 0;

  constructor(firstMs: number, longestMs: number) {
    this.#firstMs = firstMs;
    this.#longestMs = longestMs;
  }

  /** Another attempt has failed: how long to wait before the next one. */
  failedMs(): number {
    return Math.min(this.#firstMs * 2 ** this.#failures++, this.#longestMs);
  }

  /** An attempt has succeeded. */
  reset(): void {
    this.#failures = 0;
  }
}
