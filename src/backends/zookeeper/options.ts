import { type Address, parseAddress } from "../../core/address.js";
import { type Duration, durationMs } from "../../core/duration.js";
import { invalidOption } from "../../core/errors.js";
import { knownOptions } from "../../core/options.js";
import { readTls, type TlsOptions, type TlsTexts } from "../../core/tls.js";
import { isNodeName } from "./names.js";
import { type Acl, CREATOR_ACL, OPEN_ACL } from "./protocol.js";

export interface ZooKeeperOptions {
  /** `zookeeper://user:password@h1:2181,h2/chroot`, or `zookeepers://` with TLS. */
  readonly url: string;
  /** PEM texts for `zookeepers://`: who signed the servers, and who we are. */
  readonly tls?: TlsOptions;
  /** Where the locks are, below the chroot; `"locktender"` if not given. `""` shares names with Curator. */
  readonly prefix?: string;
  /** How long one request may take; `"2s"` if not given. */
  readonly timeout?: Duration;
  /** Who may touch our nodes: everybody, or whoever has the same user and password (then the default). */
  readonly acl?: "open" | "creator";
}

export interface ZooKeeperSettings {
  readonly address: Address;
  readonly secure: boolean;
  readonly tls: TlsTexts;
  /** The path of the node that all locks are below; empty for the root of the tree. */
  readonly root: string;
  readonly timeoutMs: number;
  readonly acl: readonly Acl[];
}

const KNOWN = new Set<string>([
  "url",
  "tls",
  "prefix",
  "timeout",
  "acl",
] satisfies (keyof ZooKeeperOptions)[]);
const PORTS = new Map([
  ["zookeeper", 2181],
  ["zookeepers", 2281],
]);

export function readZooKeeperOptions(options: ZooKeeperOptions): ZooKeeperSettings {
  knownOptions(options, KNOWN, "zookeeper");
  const { url, tls = {}, prefix = "locktender" } = options;
  if (typeof url !== "string") {
    throw invalidOption("zookeeper: give a url such as zookeeper://127.0.0.1:2181.");
  }
  const address = parseAddress("zookeeper", url, PORTS, "zookeeper://h1:2181,h2/chroot or zookeepers://");
  const { username, password } = address;
  if ((username === undefined) !== (password === undefined)) {
    throw invalidOption("zookeeper: the url needs a user name and a password, or neither.");
  }
  if (username?.includes(":")) throw invalidOption("zookeeper: a user name there has no colon in it.");
  if (typeof prefix !== "string" || prefix.length > 100 || prefix.includes("%")) {
    throw invalidOption("prefix: at most 100 characters, and no percent.");
  }
  const steps = [...decodeURIComponent(address.path).split("/"), ...prefix.split("/")].filter(
    (step) => step !== "",
  );
  if (!steps.every(isNodeName)) throw invalidOption("zookeeper: this chroot or prefix is no path there.");
  const { acl = username === undefined ? "open" : "creator" } = options;
  if (acl !== "open" && acl !== "creator") throw invalidOption('acl: "open" or "creator".');
  if (acl === "creator" && username === undefined) {
    throw invalidOption("acl: creator needs a user name and a password in the url.");
  }
  const secure = address.scheme === "zookeepers";
  if (!secure && options.tls !== undefined) throw invalidOption("tls: needs a zookeepers:// url.");
  return {
    address,
    secure,
    tls: readTls(tls),
    root: steps.map((step) => `/${step}`).join(""),
    timeoutMs: durationMs("timeout", options.timeout ?? "2s", { minMs: 10, maxMs: 60_000 }),
    acl: acl === "creator" ? CREATOR_ACL : OPEN_ACL,
  };
}
