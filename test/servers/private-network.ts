import { execFile } from "node:child_process";
import { randomInt } from "node:crypto";
import { promisify } from "node:util";
import type { Stoppable } from "./server-process.js";

/** Where it is missing or not allowed, the tests that need it are skipped. */
export const IP_PROGRAM = { program: "ip", package: "iproute2" };

const run = promisify(execFile);
const ip = (...args: string[]) => run("ip", args);

export interface PrivateHost {
  readonly address: string;
  /** What stands in front of a command line that is to run there. */
  readonly enter: readonly [program: string, ...args: string[]];
}

/**
 * Hosts of our own on this machine: network namespaces on a bridge, which the tests' own process shares. Two of
 * them can be cut off from each other: packets vanish, and neither host is told.
 */
export class PrivateNetwork implements Stoppable {
  readonly hosts: readonly PrivateHost[];
  readonly #here: string;
  readonly #bridge: string;
  readonly #namespaces: readonly string[];
  readonly #cuts = new Set<string>();

  private constructor(id: string, subnet: string, count: number) {
    this.#here = `${subnet}.1`;
    this.#bridge = `lt${id}`;
    this.#namespaces = Array.from({ length: count }, (_, index) => `lt${id}-${index}`);
    this.hosts = this.#namespaces.map((namespace, index) => ({
      address: `${subnet}.${index + 10}`,
      enter: ["ip", "netns", "exec", namespace],
    }));
  }

  /** `undefined` where that is not allowed: it takes root, and a kernel that has namespaces. */
  static async create(count: number): Promise<PrivateNetwork | undefined> {
    const id = randomInt(36 ** 5).toString(36);
    const subnet = `10.${randomInt(100, 250)}.${randomInt(1, 250)}`;
    const network = new PrivateNetwork(id, subnet, count);
    try {
      await ip("link", "add", network.#bridge, "type", "bridge");
      await ip("addr", "add", `${network.#here}/24`, "dev", network.#bridge);
      await ip("link", "set", network.#bridge, "up");
      for (const [index, namespace] of network.#namespaces.entries()) await network.#join(namespace, index);
      return network;
    } catch {
      await network.stop();
      return undefined;
    }
  }

  async #join(namespace: string, index: number): Promise<void> {
    const outside = `${namespace}o`;
    await ip("netns", "add", namespace);
    await ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", namespace);
    await ip("link", "set", outside, "master", this.#bridge, "up");
    await ip("-n", namespace, "addr", "add", `${this.hosts[index]?.address}/24`, "dev", "eth0");
    await ip("-n", namespace, "link", "set", "eth0", "up");
    await ip("-n", namespace, "link", "set", "lo", "up");
  }

  /** Neither hears the other any more; both still hear all other hosts. */
  async cut(one: PrivateHost, other: PrivateHost): Promise<void> {
    await Promise.all([this.#blackhole(one, other), this.#blackhole(other, one)]);
  }

  async #blackhole(from: PrivateHost, to: PrivateHost): Promise<void> {
    const namespace = from.enter[3] ?? "";
    await ip("-n", namespace, "route", "add", "blackhole", `${to.address}/32`);
    this.#cuts.add(`${namespace} ${to.address}`);
  }

  async heal(): Promise<void> {
    for (const cut of this.#cuts) {
      const [namespace = "", address] = cut.split(" ");
      await ip("-n", namespace, "route", "del", "blackhole", `${address}/32`);
    }
    this.#cuts.clear();
  }

  async stop(): Promise<void> {
    // Some of it may not exist, if it could not be made.
    for (const namespace of this.#namespaces) await ip("netns", "del", namespace).catch(() => undefined);
    await ip("link", "del", this.#bridge).catch(() => undefined);
  }
}
