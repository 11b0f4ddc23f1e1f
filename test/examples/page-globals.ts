import { connect, type Locks } from "locktender";

/** What the pages use without defining it: locks that are open, and something that they protect. */
interface Shop {
  read(item: string, signal?: AbortSignal): Promise<number>;
  write(item: string, left: number, token: bigint): Promise<void>;
  print(page: number, signal?: AbortSignal): Promise<void>;
}

declare global {
  var locks: Locks;
  var shop: Shop;
}

let stock = 7;
let newest = 0n;

globalThis.locks = await connect("memory:", { owner: { service: "checkout" } });
globalThis.shop = {
  async read(_item, signal) {
    signal?.throwIfAborted();
    return stock;
  },
  async write(_item, left, token) {
    if (token < newest) throw new Error("refused: a newer holder has been here");
    newest = token;
    stock = left;
  },
  async print(_page, signal) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    signal?.throwIfAborted();
  },
};
