import { StaleTokenError } from "../core/errors.js";
import { type Fenced, type Pass, passOf, readToken } from "./fenced.js";
import { FENCING_TOKEN, formatToken } from "./header.js";
import { PROBLEM_JSON, problemType } from "./problem.js";

type Fetch = typeof globalThis.fetch;

/**
 * A `fetch` that sends the lease's token along and stops when the lease is lost. It rejects with `StaleTokenError`
 * if the answer is that of a fence which has seen a newer token.
 */
export function fencedFetch(
  lease: Fenced & { readonly signal?: AbortSignal },
  fetch: Fetch = globalThis.fetch,
): Fetch {
  return async (input, init) => {
    const pass = passOf(lease);
    const given = typeof input === "object" && "headers" in input ? input : undefined;
    const headers = new Headers(init?.headers ?? given?.headers);
    headers.set(FENCING_TOKEN, formatToken(pass));
    const signals = [lease.signal, init?.signal ?? given?.signal].filter((signal) => signal != null);
    const response = await fetch(input, { ...init, headers, signal: AbortSignal.any(signals) });
    await throwIfStale(response, pass);
    return response;
  };
}

async function throwIfStale(response: Response, { lock, token }: Pass): Promise<void> {
  if (response.status !== 412 || !response.headers.get("content-type")?.startsWith(PROBLEM_JSON)) return;
  const problem = (await response
    .clone()
    .json()
    .catch(() => undefined)) as Partial<Record<string, string>> | undefined;
  if (problem?.type !== problemType("stale-token")) return;
  throw new StaleTokenError(lock, {
    resource: problem.resource ?? lock,
    token,
    highest: readToken(problem.highest, lock),
  });
}
