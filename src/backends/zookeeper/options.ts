import { type Duration, durationMs } from "../../core/duration.js";
import { invalidOption } from "../../core/errors.js";
import { knownEngineOptions, ttlOption } from "../../core/options.js";
import { readTls, TLS_PARAMETERS, type TlsOptions, type TlsSettings } from "../../engine-kit/tls.js";
import {
  type Address,
  duration,
  parseAddress,
  text,
  type UrlForm,
  withParameters,
} from "../../engine-kit/url.js";
import { isNodeName } from "./keys.js";
import { type Acl, CREATOR_ACL, OPEN_ACL } from "./messages.js";

/** Which servers, and how they are used. */
export interface ZooKeeperOptions {
  /** `zookeeper://user:password@h1:2181,h2/chroot`, or `zookeepers://` with TLS. */
  readonly url: string;
  /** PEM texts for `zookeepers://`: the authority of the servers, and our own certificate. */
  readonly tls?: TlsOptions | undefined;
  /** Where the locks are, below the chroot; `"locktender"` if not given. `""` shares names with Curator. */
  readonly prefix?: string | undefined;
  /** How long one request may take; `"2s"` if not given. */
  readonly timeout?: Duration | undefined;
  /**
   * The ttl that locks have by default; `connect` gives it. Its session is the first that is opened, and servers that
   * do not allow it are found out then. If not given, the first lock that needs it finds out.
   */
  readonly ttl?: Duration | undefined;
  /** Which clients may touch our nodes: all, or those with the same user and password (then the default). */
  readonly acl?: "open" | "creator" | undefined;
}

export interface ZooKeeperSettings {
  readonly address: Address;
  readonly tls: TlsSettings | undefined;
  /** The path of the node that all locks are below; empty for the root of the tree. */
  readonly root: string;
  readonly timeoutMs: number;
  readonly ttlMs: number | undefined;
  readonly acl: readonly Acl[];
}

export const KNOWN: ReadonlySet<string> = new Set<string>([
  "url",
  "tls",
  "prefix",
  "timeout",
  "ttl",
  "acl",
] satisfies (keyof ZooKeeperOptions)[]);
const FORM: UrlForm = {
  engine: "zookeeper",
  ports: new Map([
    ["zookeeper", 2181],
    ["zookeepers", 2281],
  ]),
  expected: "zookeeper://h1:2181,h2/chroot or zookeepers://",
  parameters: {
    honoured: { ...TLS_PARAMETERS, prefix: text("prefix"), timeout: duration("timeout"), acl: text("acl") },
    withoutEffect: [],
  },
};

export function readZooKeeperOptions(given: ZooKeeperOptions): ZooKeeperSettings {
  knownEngineOptions(given, KNOWN, "zookeeper");
  const { url, tls } = given;
  if (typeof url !== "string") {
    throw invalidOption("zookeeper: give a url such as zookeeper://127.0.0.1:2181.");
  }
  const { parameters, ...address } = parseAddress(FORM, url);
  const options = withParameters(given, parameters, KNOWN);
  const { prefix = "locktender" } = options;
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
  return {
    address,
    tls: readTls(tls, parameters, { isSecure: address.scheme === "zookeepers", secure: "zookeepers" }),
    root: steps.map((step) => `/${step}`).join(""),
    timeoutMs: durationMs("timeout", options.timeout ?? "2s", { minMs: 10, maxMs: 60_000 }),
    ttlMs: options.ttl === undefined ? undefined : ttlOption(options.ttl),
    acl: acl === "creator" ? CREATOR_ACL : OPEN_ACL,
  };
}
