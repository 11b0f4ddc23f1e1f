/**
 * What the lock protects: a book of numbered orders. It trusts no writer's belief of holding the lock, but
 * remembers the newest token it has seen and refuses every older one.
 */
export class OrderBook {
  /** @type {{ number: number, who: string, token: bigint }[]} */
  orders = [];
  /** @type {{ number: number, who: string, token: bigint, newest: bigint }[]} */
  refused = [];
  #newest = 0n;

  /** The number that the next order gets, as far as a reader can know. */
  next() {
    return this.orders.length + 1;
  }

  /**
   * The check and the write are one step. A database does the same with
   * `UPDATE … SET …, token = :token WHERE token <= :token`.
   * @param {{ number: number, who: string, token: bigint }} order
   */
  write(order) {
    if (order.token < this.#newest) {
      this.refused.push({ ...order, newest: this.#newest });
      return false;
    }
    this.#newest = order.token;
    this.orders.push(order);
    return true;
  }
}
