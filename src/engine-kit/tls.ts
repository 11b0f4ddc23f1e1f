import { readFileSync } from "node:fs";
import { isIP } from "node:net";
import { checkServerIdentity, createSecureContext, type PeerCertificate } from "node:tls";
import { invalidOption } from "../core/errors.js";
import { knownOptions } from "../core/options.js";
import { plainText } from "../core/plain-text.js";
import { type Parameter, text, words } from "./url.js";

/** PEM texts: the authority that signed the servers' certificates, and our own certificate. */
export interface TlsOptions {
  /** The authority that signed the servers' certificates; those that Node.js trusts if not given. */
  readonly ca?: string | Buffer | undefined;
  /** Our own certificate, where the servers ask for one; with `key`. */
  readonly cert?: string | Buffer | undefined;
  /** The private key of `cert`. */
  readonly key?: string | Buffer | undefined;
}

interface TlsTexts {
  readonly ca?: Buffer;
  readonly cert?: Buffer;
  readonly key?: Buffer;
}

/** What is checked of a certificate: its authority and the host that it names; only the authority; or nothing. */
type Verify = "full" | "signer" | "nothing";

/** TLS as an engine speaks it: the PEM texts, and what is checked. */
export interface TlsSettings extends TlsTexts {
  readonly verify: Verify;
}

/** What the parameters of a URL can say about TLS. */
export interface TlsParameters {
  readonly verify?: Verify | "off" | undefined;
  readonly sslrootcert?: string | undefined;
  readonly sslcert?: string | undefined;
  readonly sslkey?: string | undefined;
}

export type TlsSets = keyof TlsParameters;

/** The words of all tools for it. Those that try TLS and go on without it are not among them. */
const MODES: Readonly<Record<string, Verify | "off">> = {
  disable: "off",
  disabled: "off",
  require: "full",
  required: "full",
  "verify-full": "full",
  verify_identity: "full",
  "verify-ca": "signer",
  verify_ca: "signer",
  "no-verify": "nothing",
};

const MUST =
  "must be disable, require, verify-ca, verify-full or no-verify. With require the certificate is checked, as with verify-full. A mode that only prefers TLS would go on without it";

/** Further words, for a parameter that other tools have. */
export function tlsMode(more: Readonly<Record<string, Verify | "off">> = {}): Parameter<"verify"> {
  return words("verify", { ...MODES, ...more }, MUST);
}

/** The parameters that every engine with TLS has. */
export const TLS_PARAMETERS: Readonly<Record<string, Parameter<TlsSets>>> = {
  sslmode: tlsMode(),
  sslrootcert: text("sslrootcert"),
  sslcert: text("sslcert"),
  sslkey: text("sslkey"),
};

/** Where it is the scheme that says whether there is TLS. */
interface ByScheme {
  readonly isSecure: boolean;
  /** The scheme that says so. */
  readonly secure: string;
}

/** How to speak TLS; `undefined` without it. */
export function readTls(
  given: TlsOptions | undefined,
  { verify, sslrootcert, sslcert, sslkey }: TlsParameters,
  scheme?: ByScheme,
): TlsSettings | undefined {
  const isInUrl = [sslrootcert, sslcert, sslkey].some((file) => file !== undefined);
  if (given !== undefined && isInUrl) {
    throw invalidOption("tls: is given as an option and in the URL (sslrootcert, sslcert, sslkey).");
  }
  const isWanted = given !== undefined || isInUrl;
  const mode = verify ?? ((scheme?.isSecure ?? isWanted) ? "full" : "off");
  if (scheme !== undefined && scheme.isSecure !== (mode !== "off")) {
    throw invalidOption(
      `sslmode: it is the scheme that says whether there is TLS: ${scheme.secure}:// or not.`,
    );
  }
  if (mode === "off") {
    if (!isWanted) return undefined;
    const why = scheme === undefined ? "the URL says sslmode=disable" : `needs a ${scheme.secure}:// URL`;
    throw invalidOption(`tls: ${why}.`);
  }
  const texts = textsOf(given ?? filesOf({ sslrootcert, sslcert, sslkey }));
  if (mode === "nothing" && texts.ca !== undefined) {
    throw invalidOption("tls: with sslmode=no-verify nothing is checked, so an authority has no effect.");
  }
  return { ...texts, verify: mode };
}

function textsOf(tls: TlsOptions): TlsTexts {
  knownOptions(tls, new Set(["ca", "cert", "key"]), "tls");
  const texts: { ca?: Buffer; cert?: Buffer; key?: Buffer } = {};
  for (const name of ["ca", "cert", "key"] as const) {
    const given = tls[name];
    if (given === undefined) continue;
    if (typeof given !== "string" && !Buffer.isBuffer(given)) {
      throw invalidOption(`tls.${name}: give the PEM text.`);
    }
    texts[name] = Buffer.from(given);
  }
  if ((texts.cert === undefined) !== (texts.key === undefined)) {
    throw invalidOption("tls: cert and key (sslcert and sslkey in a URL) go together.");
  }
  try {
    // Else it would fail at each attempt to connect, and look like an outage.
    createSecureContext(texts);
  } catch (error) {
    throw invalidOption(`tls: these texts cannot be used: ${plainText((error as Error).message)}.`);
  }
  return texts;
}

/** `system`, as tools call it, are the authorities that Node.js trusts anyway. */
function filesOf({ sslrootcert, sslcert, sslkey }: TlsParameters): TlsOptions {
  return {
    ca: sslrootcert === "system" ? undefined : fileOf("sslrootcert", sslrootcert),
    cert: fileOf("sslcert", sslcert),
    key: fileOf("sslkey", sslkey),
  };
}

function fileOf(name: string, path: string | undefined): Buffer | undefined {
  if (path === undefined) return undefined;
  try {
    return readFileSync(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw invalidOption(`${name}: the file that the URL names cannot be read (${code}).`);
  }
}

/** For `tls.connect`, and for libraries that pass these on to it. `host` is whom the certificate must name. */
export function socketTls({ verify, ...texts }: TlsSettings, host?: string) {
  return {
    ...texts,
    ...(host === undefined || isIP(host) !== 0 ? undefined : { servername: host }),
    rejectUnauthorized: verify !== "nothing",
    ...identityCheck(verify, host),
  };
}

/** The libraries would hold a certificate against another name where the host is an address. */
function identityCheck(verify: Verify, host: string | undefined) {
  if (verify !== "full") return { checkServerIdentity: () => undefined };
  if (host === undefined) return undefined;
  return { checkServerIdentity: (_: string, found: PeerCertificate) => checkServerIdentity(host, found) };
}

/** What the caller has given up by the URL. */
export function tlsCaveats(tls: TlsSettings | undefined): readonly string[] {
  if (tls === undefined || tls.verify === "full") return [];
  return [
    tls.verify === "nothing"
      ? "The server's certificate is not checked (no-verify in the URL): an attacker on the network could read and answer everything, and grant locks that others hold."
      : "The server's certificate is not held against its name (verify-ca in the URL): any server whose certificate the same authority has signed could answer.",
  ];
}

interface Advice {
  readonly advice: string;
  /** Whether it may pass by itself: a server that is just being started or stopped hangs up in the middle, too. */
  readonly passes: boolean;
}

const UNKNOWN = "Node.js trusts no authority that has signed this certificate. Name its authority";
const UNKNOWN_AUTHORITY = `${UNKNOWN}: connect(url, { engine: { tls: { ca } } }) with the PEM text, or sslrootcert=/path/of/ca.pem in the URL. With sslmode=no-verify in the URL nothing is checked.`;
/** Where the connection is not made by a URL. */
const TO_YOURS = `${UNKNOWN} to the client or pool that is yours.`;

/** What to do about errors of TLS, by their texts; the first that fits. */
const ADVICE: readonly (readonly [text: RegExp, advice: string, passes?: true])[] = [
  [
    /self.signed certificate|unable to (get (local )?issuer|verify the first) certificate/i,
    UNKNOWN_AUTHORITY,
  ],
  [
    /match certificate|altnames/i,
    "The certificate is another host's: in the URL, name the host as the certificate does.",
  ],
  [/certificate/i, "The server must have a certificate that is valid, and so must we if it asks for one."],
  [
    /wrong version number|packet length too long|not support (SSL|secure)/i,
    "The server does not speak TLS at this port. Connect to the port where it does, or without TLS.",
  ],
  [
    /channel binding/,
    "channel_binding=require in the URL asks for it. Leave it out, or find out which server answers there.",
  ],
  [/\bSSL\b|\bTLS\b|secure connection/i, "Is the server running, and does it speak TLS at this port?", true],
];

/** `undefined` if it is no error of TLS. The connection may be one of the caller's own client or pool. */
export function tlsAdvice(message: string, isCallers = false): Advice | undefined {
  const [, advice, passes = false] = ADVICE.find(([text]) => text.test(message)) ?? [];
  if (advice === undefined) return undefined;
  return { advice: isCallers && advice === UNKNOWN_AUTHORITY ? TO_YOURS : advice, passes };
}
