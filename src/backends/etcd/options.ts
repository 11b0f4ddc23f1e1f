import { type Duration, durationMs } from "../../core/duration.js";
import { invalidOption } from "../../core/errors.js";
import { knownEngineOptions } from "../../core/options.js";
import { readTls, TLS_PARAMETERS, type TlsOptions, type TlsSettings } from "../../engine-kit/tls.js";
import {
  type Address,
  duration,
  parseAddress,
  text,
  type UrlForm,
  withParameters,
} from "../../engine-kit/url.js";

/** Which servers, and how they are used. */
export interface EtcdOptions {
  /** `etcd://h1,h2` or, with TLS, `etcds://user:password@h1,h2`. */
  readonly url: string;
  /** PEM texts for `etcds://`: the authority of the servers, and our own certificate. */
  readonly tls?: TlsOptions | undefined;
  /** What the keys begin with; `"locktender"` if not given. `""` shares names with `etcdctl lock`. */
  readonly prefix?: string | undefined;
  /** How long one request may take; `"2s"` if not given. */
  readonly timeout?: Duration | undefined;
}

export interface EtcdSettings {
  readonly address: Address;
  readonly tls: TlsSettings | undefined;
  /** Every key begins with this. */
  readonly root: string;
  readonly timeoutMs: number;
}

export const KNOWN: ReadonlySet<string> = new Set<string>([
  "url",
  "tls",
  "prefix",
  "timeout",
] satisfies (keyof EtcdOptions)[]);
const FORM: UrlForm = {
  engine: "etcd",
  ports: new Map([
    ["etcd", 2379],
    ["etcds", 2379],
  ]),
  expected: "etcd://h1:2379,h2:2379 or etcds://",
  parameters: {
    honoured: { ...TLS_PARAMETERS, prefix: text("prefix"), timeout: duration("timeout") },
    withoutEffect: [],
  },
};

export function readEtcdOptions(given: EtcdOptions): EtcdSettings {
  knownEngineOptions(given, KNOWN, "etcd");
  const { url, tls } = given;
  if (typeof url !== "string") throw invalidOption("etcd: give a url such as etcd://127.0.0.1:2379.");
  const { parameters, ...address } = parseAddress(FORM, url);
  const options = withParameters(given, parameters, KNOWN);
  const { prefix = "locktender" } = options;
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
  return {
    address,
    tls: readTls(tls, parameters, { isSecure: address.scheme === "etcds", secure: "etcds" }),
    root: prefix === "" ? "" : `${prefix}/`,
    timeoutMs: durationMs("timeout", options.timeout ?? "2s", { minMs: 10, maxMs: 60_000 }),
  };
}
