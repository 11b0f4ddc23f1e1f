import { type Address, parseAddress } from "../../core/address.js";
import { type Duration, durationMs } from "../../core/duration.js";
import { invalidOption } from "../../core/errors.js";
import { knownOptions } from "../../core/options.js";
import { readTls, type TlsOptions, type TlsTexts } from "../../core/tls.js";

export interface EtcdOptions {
  /** `etcd://h1,h2` or, with TLS, `etcds://user:password@h1,h2`. */
  readonly url: string;
  /** PEM texts for `etcds://`: who signed the servers, and who we are. */
  readonly tls?: TlsOptions;
  /** What the keys begin with; `"locktender"` if not given. `""` shares names with `etcdctl lock`. */
  readonly prefix?: string;
  /** How long one request may take; `"2s"` if not given. */
  readonly timeout?: Duration;
}

export interface EtcdSettings {
  readonly address: Address;
  readonly secure: boolean;
  readonly tls: TlsTexts;
  /** Every key begins with this. */
  readonly root: string;
  readonly timeoutMs: number;
}

const KNOWN = new Set<string>(["url", "tls", "prefix", "timeout"] satisfies (keyof EtcdOptions)[]);
const PORTS = new Map([
  ["etcd", 2379],
  ["etcds", 2379],
]);

export function readEtcdOptions(options: EtcdOptions): EtcdSettings {
  knownOptions(options, KNOWN, "etcd");
  const { url, tls = {}, prefix = "locktender" } = options;
  if (typeof url !== "string") throw invalidOption("etcd: give a url such as etcd://127.0.0.1:2379.");
  const address = parseAddress("etcd", url, PORTS, "etcd://h1:2379,h2:2379 or etcds://");
  if (address.path !== "") throw invalidOption("etcd: the url has no path; use the option prefix.");
  if ((address.username === undefined) !== (address.password === undefined)) {
    throw invalidOption("etcd: the url needs a user name and a password, or neither.");
  }
  if (
    typeof prefix !== "string" ||
    prefix.length > 100 ||
    /[\p{Cc}%]/u.test(prefix) ||
    prefix.endsWith("/")
  ) {
    throw invalidOption(
      "prefix: at most 100 characters, no percent or control characters, no slash at its end.",
    );
  }
  const secure = address.scheme === "etcds";
  if (!secure && options.tls !== undefined) throw invalidOption("tls: needs an etcds:// url.");
  return {
    address,
    secure,
    tls: readTls(tls),
    root: prefix === "" ? "" : `${prefix}/`,
    timeoutMs: durationMs("timeout", options.timeout ?? "2s", { minMs: 10, maxMs: 60_000 }),
  };
}
