import type { Backend, Traits } from "../../core/backend.js";
import { tlsCaveats } from "../../engine-kit/tls.js";
import { SessionBackend } from "../session-queue/backend.js";
import { ZooKeeperCells } from "./cells.js";
import { ZooKeeperDriver } from "./driver.js";
import { againIfExpired } from "./errors.js";
import { forceRelease } from "./force.js";
import { readRecord, readRecords } from "./list.js";
import { readZooKeeperOptions, type ZooKeeperOptions } from "./options.js";

export type { ZooKeeperOptions } from "./options.js";

const TRAITS: Traits = {
  engine: "zookeeper",
  reach: "network",
  fencing: true,
  queueing: true,
  notifications: true,
  ttl: "session",
  expiryGranularityMs: 2_000,
  caveats: [
    "Sessions last from two to twenty ticks of the servers (4 to 40 s by default): shorter times to live are raised to that, longer ones are refused.",
    "A lease is trusted for two thirds of its ttl after a renewal, because a server that is cut off from its leader does not know it.",
    "A new leader gives all sessions their whole time again, so after an election a dead holder may keep its lock for longer than its ttl.",
    "Tokens are numbers that the servers count: they go back when the servers are restored from a backup, or start with empty data.",
  ],
};

/** Locks on ZooKeeper, in the layout of Curator. */
export function zookeeper(options: ZooKeeperOptions): Backend {
  const settings = readZooKeeperOptions(options);
  const driver = new ZooKeeperDriver(settings);
  const { sessions, root } = driver;
  return new SessionBackend(driver, {
    traits: { ...TRAITS, caveats: [...TRAITS.caveats, ...tlsCaveats(settings.tls)] },
    cells: new ZooKeeperCells(driver),
    record: async (name, limit) => readRecord(await sessions.any(), root, name, limit),
    records: (prefix) => readRecords(sessions, root, prefix),
    takeAway: async (claim, force) => forceRelease(await sessions.any(), root, claim, force),
    again: againIfExpired,
  });
}
