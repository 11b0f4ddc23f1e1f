import type { Host } from "../../engine-kit/address.js";
import { ReadOnlyServerError } from "./errors.js";

/** The hosts of a URL. One that could write is tried first from then on. */
export class Hosts {
  readonly #hosts: readonly Host[];
  #first = 0;

  constructor(hosts: readonly Host[]) {
    this.#hosts = hosts;
  }

  /** The time that each of them gets, so that one that is silent does not use it up. */
  shareOf(timeoutMs: number): number {
    return Math.ceil(timeoutMs / this.#hosts.length);
  }

  /** Opens a connection to the first host that lets it. Only that one can be `lost`. */
  async open<T>(lost: () => void, open: (host: Host, lost: () => void) => Promise<T>): Promise<T> {
    const number = this.#hosts.length;
    let failure: unknown;
    for (let tried = 0; tried < number; tried++) {
      const at = (this.#first + tried) % number;
      try {
        const tells = { isOpen: false, isLost: false };
        const opened = await open(this.#hosts[at] as Host, () => {
          tells.isLost = true;
          if (tells.isOpen) lost();
        });
        tells.isOpen = true;
        if (tells.isLost) lost();
        this.#first = at;
        return opened;
      } catch (error) {
        // That one of them is a replica says more than that others are down.
        if (!(failure instanceof ReadOnlyServerError)) failure = error;
      }
    }
    throw failure;
  }
}
