import type { Backend, Traits } from "../../core/backend.js";
import { installed } from "../../engine-kit/client-library.js";
import { tlsCaveats } from "../../engine-kit/tls.js";
import { SessionBackend } from "../session-queue/backend.js";
import { EtcdCells } from "./cells.js";
import { EtcdDriver } from "./driver.js";
import { readRecord, readRecords } from "./list.js";
import { type EtcdOptions, readEtcdOptions } from "./options.js";

export type { EtcdOptions } from "./options.js";

const TRAITS: Traits = {
  engine: "etcd",
  reach: "network",
  fencing: true,
  queueing: true,
  notifications: true,
  ttl: "session",
  expiryGranularityMs: 2_000,
  caveats: [
    "Times to live are whole seconds, and at least one and a half election timeouts of the servers.",
    "A new leader extends all leases, so after an election a dead holder may keep its lock for longer than its ttl.",
    "Tokens are numbers that the servers count: they go back when the servers are restored from a backup, or start with empty data.",
  ],
};

/** Locks on etcd, in the layout of its own clients. */
export function etcd(options: EtcdOptions): Backend {
  const settings = readEtcdOptions(options);
  const driver = new EtcdDriver(settings);
  const { rpc, root, forces } = driver;
  return new SessionBackend(driver, {
    traits: { ...TRAITS, caveats: [...TRAITS.caveats, ...tlsCaveats(settings.tls)] },
    client: () => installed("@grpc/grpc-js"),
    cells: new EtcdCells(rpc, root),
    record: (name, limit) => readRecord(rpc, root, name, limit),
    records: (prefix) => readRecords(rpc, root, prefix),
    takeAway: (claim, force) => forces.takeAway(claim, force),
  });
}
