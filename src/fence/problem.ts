import { isLockError } from "../core/errors.js";

/** An answer to a request: the second argument of `new Response(body, …)`, or of `writeHead`. */
export interface Problem {
  readonly status: number;
  readonly headers: { readonly "content-type": string };
  /** JSON as in RFC 9457. */
  readonly body: string;
}

export const PROBLEM_JSON = "application/problem+json";
/** Not 409: the request itself named the condition, and sending it again cannot help. */
const STATUS = { "stale-token": 412, "missing-token": 428, "invalid-token": 400 } as const;

export const problemType = (code: keyof typeof STATUS): string => `urn:locktender:${code}`;

/** What to answer to a request that was refused; `undefined` if the error says nothing of its token. */
export function fenceProblem(error: unknown): Problem | undefined {
  const codes = Object.keys(STATUS) as (keyof typeof STATUS)[];
  const code = codes.find((one) => isLockError(error, one));
  if (code === undefined || !(error instanceof Error)) return undefined;
  const stale = isLockError(error, "stale-token")
    ? { name: error.lock, resource: error.resource, token: `${error.token}`, highest: `${error.highest}` }
    : undefined;
  const status = STATUS[code];
  const body = {
    type: problemType(code),
    title: code.replace("-", " "),
    status,
    detail: error.message,
    ...stale,
  };
  return { status, headers: { "content-type": PROBLEM_JSON }, body: JSON.stringify(body) };
}
