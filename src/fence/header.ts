import { invalidOption, LockError } from "../core/errors.js";
import { canonicalName, type LockName } from "../core/names.js";
import { knownOptions } from "../core/options.js";
import { invalidToken, type Pass, readToken } from "./fenced.js";

/**
 * The header that carries a token: an item of RFC 9651, the lock's name as a display string (or a plain string),
 * with the token as the parameter `token`. That one is a string, because integers have at most 15 digits there.
 *
 *   Fencing-Token: %"stock:lamp";token="1837880256828234752"
 */
export const FENCING_TOKEN = "Fencing-Token";

/** A request of the platform, or one of `node:http`. */
export interface RequestLike {
  readonly headers:
    | { get(name: string): string | null }
    | { readonly [name: string]: string | readonly string[] | undefined };
}

export interface FencingTokenOptions {
  /** The lock that the resource stands behind: the token of another one is refused. */
  readonly lock?: LockName | undefined;
}

const OPTIONS: ReadonlySet<string> = new Set(["lock"]);
const DISPLAY = /%"(?:[ !#$&-~]|%[0-9a-f]{2})*"/;
const STRING = /"(?:[ !#-[\]-~]|\\["\\])*"/;
/** Values of other kinds: numbers, tokens, booleans, bytes, dates. They are read over. */
const OTHER = /[\w:?@+/=*.!#$%&'^`|~-]+/;
const PARAMETER = new RegExp(
  `; *([a-z*][a-z\\d_.*-]*)(?:=(${DISPLAY.source}|${STRING.source}|${OTHER.source}))?`,
);
const ITEM = new RegExp(`^ *(${DISPLAY.source}|${STRING.source})((?:${PARAMETER.source})*) *$`);

export function formatToken({ lock, token }: Pick<Pass, "lock" | "token">): string {
  const name = [...Buffer.from(lock)].map((byte) => {
    const plain = byte >= 0x20 && byte < 0x7f && byte !== 0x22 && byte !== 0x25;
    return plain ? String.fromCharCode(byte) : `%${byte.toString(16).padStart(2, "0")}`;
  });
  return `%"${name.join("")}";token="${token}"`;
}

/** What a request said of its lease. */
export interface Sender {
  readonly name: string;
  readonly token: bigint;
}

/** Throws `missing-token` if the request says nothing, `invalid-token` if it cannot be read or is another lock's. */
export function fencingToken(request: RequestLike, options: FencingTokenOptions = {}): Sender {
  knownOptions(options, OPTIONS, "fencingToken");
  const sender = read(request);
  const lock = options.lock === undefined ? sender.name : canonicalName(options.lock);
  if (sender.name === lock) return sender;
  throw invalidToken(`the token of "${sender.name}" says nothing here, where "${lock}" is to be held.`, lock);
}

function read(request: RequestLike): Sender {
  const text = headerOf(request);
  if (text === undefined) {
    throw new LockError(
      "missing-token",
      `the request has no ${FENCING_TOKEN} header, so it cannot be known whose write it is.`,
    );
  }
  const [, item, parameters = ""] = ITEM.exec(text) ?? [];
  if (item === undefined) throw unreadable(text);
  const found = [...parameters.matchAll(new RegExp(PARAMETER, "g"))].findLast(([, key]) => key === "token");
  if (found?.[2] === undefined) throw unreadable(text);
  try {
    const name = canonicalName(bare(item));
    return { name, token: readToken(bare(found[2]), name) };
  } catch (cause) {
    throw Object.assign(unreadable(text), { cause });
  }
}

function headerOf(request: RequestLike): string | undefined {
  const { headers } = (request ?? {}) as Partial<RequestLike>;
  if (typeof headers !== "object" || headers === null) {
    throw invalidOption("fence: the first argument is the request, with its headers.");
  }
  if (typeof headers.get === "function") return headers.get(FENCING_TOKEN) ?? undefined;
  const value = (headers as Readonly<Record<string, string | readonly string[] | undefined>>)[
    FENCING_TOKEN.toLowerCase()
  ];
  return Array.isArray(value) ? value.join(", ") : value?.toString();
}

/** The text that a string or a display string stands for. */
function bare(value: string): string {
  const inner = value.slice(value.indexOf('"') + 1, -1);
  return value.startsWith("%") ? decodeURIComponent(inner) : inner.replace(/\\(.)/g, "$1");
}

function unreadable(text: string): LockError {
  return invalidToken(
    `the ${FENCING_TOKEN} header cannot be read: ${JSON.stringify(text.slice(0, 80))}. It looks like %"stock:lamp";token="1837880256828234752".`,
  );
}
