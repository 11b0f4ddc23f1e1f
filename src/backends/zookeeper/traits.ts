import type { Traits } from "../../core/backend.js";
import { tlsCaveats } from "../../engine-kit/tls.js";
import type { ZooKeeperSettings } from "./options.js";

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

export function traitsOf({ tls }: ZooKeeperSettings): Traits {
  return { ...TRAITS, caveats: [...TRAITS.caveats, ...tlsCaveats(tls)] };
}
