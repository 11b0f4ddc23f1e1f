import { quotedText } from "../core/plain-text.js";

export type WebLockMode = "exclusive" | "shared";

/** As `LockOptions` of the platform. */
export interface WebLockOptions {
  mode?: WebLockMode | undefined;
  ifAvailable?: boolean | undefined;
  steal?: boolean | undefined;
  signal?: AbortSignal | undefined;
}

export interface WebRequest {
  readonly name: string;
  readonly mode: WebLockMode;
  readonly ifAvailable: boolean;
  readonly steal: boolean;
  readonly signal: AbortSignal | undefined;
}

/** What is asked for, or the error that the specification has for it, in the order in which it looks. */
export function readRequest<F>(
  given: unknown,
  args: readonly unknown[],
): { options: WebRequest; callback: F } {
  const [dictionary, callback] = args.length >= 2 ? args : [{}, args[0]];
  if (typeof callback !== "function") throw new TypeError("request: the callback must be a function.");
  // As the platform does it: a number is a name, too, and a symbol is a TypeError.
  const name = `${given}`;
  if (dictionary !== undefined && dictionary !== null && typeof dictionary !== "object") {
    throw new TypeError("request: the options must be an object.");
  }
  const { mode = "exclusive", ifAvailable, steal, signal } = (dictionary ?? {}) as WebLockOptions;
  if (mode !== "exclusive" && mode !== "shared") {
    throw new TypeError(`request: mode must be "exclusive" or "shared", not ${quotedText(String(mode))}.`);
  }
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw new TypeError("request: signal must be an AbortSignal.");
  }
  if (name.startsWith("-")) throw notSupported('names that begin with "-" are reserved');
  if (steal && ifAvailable) throw notSupported("steal and ifAvailable cannot be combined");
  if (steal && mode !== "exclusive") throw notSupported("only an exclusive lock can be stolen");
  if (signal !== undefined && (steal || ifAvailable)) {
    throw notSupported("a signal can be combined with neither steal nor ifAvailable");
  }
  const options = { name, mode, ifAvailable: Boolean(ifAvailable), steal: Boolean(steal), signal };
  return { options, callback: callback as F };
}

export function notSupported(message: string): DOMException {
  return new DOMException(`request: ${message}.`, "NotSupportedError");
}
