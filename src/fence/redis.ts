import { createHash } from "node:crypto";
import { type Duration, durationMs } from "../core/duration.js";
import { hasMethods, invalidOption, partOf } from "../core/errors.js";
import { knownOptions } from "../core/options.js";
import { admit, type Fenced, type FenceOptions, type Pass, passOf } from "./fence.js";
import { lua } from "./lua.generated.js";

type Text = string | Buffer;

/** A client of ioredis or iovalkey. */
export interface IoredisLike {
  evalsha(sha: string, numberOfKeys: number, ...keysAndArgs: Text[]): Promise<unknown>;
  eval(lua: string, numberOfKeys: number, ...keysAndArgs: Text[]): Promise<unknown>;
}

/** A client of node-redis. */
export interface NodeRedisLike {
  evalSha(sha: string, options: { keys: Text[]; arguments: Text[] }): Promise<unknown>;
  eval(lua: string, options: { keys: Text[]; arguments: Text[] }): Promise<unknown>;
}

/** A client of ioredis, iovalkey or node-redis. */
export type RedisLike = IoredisLike | NodeRedisLike;

/** What is written to, and how long its newest token is remembered. */
export interface RedisFenceOptions extends FenceOptions {
  /**
   * How long after its last write a resource remembers its newest token, 30 days unless said otherwise. It must
   * be longer than any process is stopped, or any token is kept elsewhere, before it is used.
   */
  readonly retention?: Duration | undefined;
}

/** A write in Lua, with its keys and arguments as `KEYS` and `ARGV`. It is put behind ours, so it has no `#!` line. */
export interface FencedScript {
  /** In Lua, without a `#!` line. */
  readonly script: string;
  /** `KEYS`; in a cluster, with the hash tag of the resource. */
  readonly keys: readonly Text[];
  /** `ARGV`. */
  readonly arguments?: readonly Text[] | undefined;
}

const OPTIONS: ReadonlySet<string> = new Set(["resource", "retention"]);
const RETENTION: Duration = "30d";

/**
 * Sets the key if no newer token has written to the resource, in one atomic step; otherwise throws `StaleTokenError`. In a
 * cluster the key needs the hash tag of the resource.
 *
 * @example
 * ```ts
 * import { Redis } from "ioredis";
 * import { fencedSet } from "locktender/fence";
 *
 * const client = new Redis();
 * await locks.mutex("stock:lamp").run((lease) => fencedSet(client, lease, "{stock:lamp}:left", "6"));
 * ```
 */
export async function fencedSet(
  client: RedisLike,
  lease: Fenced,
  key: Text,
  value: Text,
  options?: RedisFenceOptions,
): Promise<void> {
  await fencedEval(client, lease, { script: lua.set, keys: [key], arguments: [value] }, options);
}

/**
 * Runs the script if no newer token has written to the resource, in one atomic step; otherwise throws `StaleTokenError`.
 *
 * @example
 * ```ts
 * import { Redis } from "ioredis";
 * import { fencedEval } from "locktender/fence";
 *
 * const client = new Redis();
 * const script = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
 * const left = await locks.mutex("stock:lamp").run((lease) =>
 *   fencedEval(client, lease, { script, keys: ["{stock:lamp}:left"], arguments: ["-1"] }),
 * );
 * ```
 */
export async function fencedEval(
  client: RedisLike,
  lease: Fenced,
  script: FencedScript,
  options: RedisFenceOptions = {},
): Promise<unknown> {
  knownOptions(options, OPTIONS, "fence");
  const { keys, arguments: args = [] } = script ?? {};
  if (typeof script?.script !== "string" || !Array.isArray(keys) || !Array.isArray(args)) {
    throw invalidOption("fence: a script is { script, keys, arguments }, with arrays of keys and arguments.");
  }
  const pass = passOf(lease, options);
  const { highest, reply } = await run(client, pass, script, options.retention);
  admit(pass, highest);
  return reply;
}

/**
 * The key with the newest token of a resource. Keys that are written behind it need the same hash tag in a cluster.
 *
 * @example
 * ```ts
 * import { fenceKey } from "locktender/fence";
 *
 * console.log(fenceKey("stock:lamp")); // locktender:fence:{stock:lamp}
 * ```
 */
export const fenceKey = (resource: string): string => `locktender:fence:{${resource}}`;

/** The newest token, and, if it is this one, what the script answered. */
export async function run(
  client: RedisLike,
  { resource, token }: Pick<Pass, "resource" | "token">,
  script: FencedScript,
  retention = RETENTION,
): Promise<{ readonly highest: bigint; readonly reply?: unknown }> {
  const keptMs = durationMs("retention", retention, { minMs: 1_000, infinite: true });
  const kept = keptMs === Infinity ? "0" : String(Math.ceil(keptMs));
  const keys = [...script.keys, fenceKey(resource)];
  const args = [...(script.arguments ?? []), token.toString(), kept];
  try {
    return { highest: token, reply: await evaluate(client, lua.fence + script.script, keys, args) };
  } catch (error) {
    const message = error instanceof Error ? error.message : "";
    const [, highest] = /^STALETOKEN (\d+)/.exec(message) ?? [];
    // One that is not newer is the word of a script of the caller's own.
    if (highest !== undefined && BigInt(highest) > token) return { highest: BigInt(highest) };
    throw /^CROSSSLOT/.test(message) ? otherSlot(resource, error) : error;
  }
}

/** By its hash first; the server forgets scripts on a restart, a failover and SCRIPT FLUSH. */
async function evaluate(client: RedisLike, script: string, keys: Text[], args: Text[]): Promise<unknown> {
  const sha = createHash("sha1").update(script).digest("hex");
  const [bySha, byText] = isIoredis(client)
    ? [
        () => client.evalsha(sha, keys.length, ...keys, ...args),
        () => client.eval(script, keys.length, ...keys, ...args),
      ]
    : [
        () => client.evalSha(sha, { keys, arguments: args }),
        () => client.eval(script, { keys, arguments: args }),
      ];
  try {
    return await answered(bySha());
  } catch (error) {
    if (!(error instanceof Error) || !error.message.startsWith("NOSCRIPT")) throw error;
    return byText();
  }
}

function isIoredis(client: RedisLike): client is IoredisLike {
  // A pipeline or a transaction of theirs has the same commands, and runs none of them by itself.
  const collects = partOf(client, "isPipeline") === true || hasMethods(client, ["execAsPipeline"]);
  if (!collects && hasMethods(client, ["evalsha", "eval"])) return true;
  if (!collects && hasMethods(client, ["evalSha", "eval"])) return false;
  throw noClient();
}

function noClient(): Error {
  return invalidOption(
    "fence: must be a client of ioredis, of redis (node-redis) or of iovalkey. A pipeline, or a client of another library cannot be used.",
  );
}

/** One that takes callbacks answers nothing, and that must not count as a write. */
function answered<T>(answer: Promise<T>): Promise<T> {
  if (!hasMethods(answer, ["then"])) throw noClient();
  return answer;
}

function otherSlot(resource: string, cause: unknown): Error {
  const error = invalidOption(
    `in a cluster, a key and its fence must be in one slot. The fence of "${resource}" is "${fenceKey(resource)}": give your keys the hash tag {${resource}}, or say as resource what stands between the braces of your keys.`,
  );
  return Object.assign(error, { cause });
}
