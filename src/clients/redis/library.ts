import { LockError } from "../../core/errors.js";
import { absent, type LowestVersions, refuseOlder } from "../../engine-kit/client-library.js";
import type { RedisLibrary } from "./options.js";

/** A client library, and what it exports. */
export interface Loaded {
  readonly library: RedisLibrary;
  readonly module: unknown;
}

export const LOWEST_VERSIONS: LowestVersions<RedisLibrary> = {
  ioredis: "5.0.0",
  redis: "5.1.0",
  iovalkey: "0.1.0",
};

/** Each import in the form that bundlers know; see `absent`. */
const LOAD: Readonly<Record<RedisLibrary, () => Promise<unknown>>> = {
  async ioredis() {
    try {
      return await import("ioredis");
    } catch (error) {
      return absent("ioredis", error);
    }
  },
  async redis() {
    try {
      return await import("redis");
    } catch (error) {
      return absent("redis", error);
    }
  },
  async iovalkey() {
    try {
      return await import("iovalkey");
    } catch (error) {
      return absent("iovalkey", error);
    }
  },
};

/** The first of them that is installed. */
export async function firstInstalled(libraries: readonly RedisLibrary[]): Promise<Loaded> {
  for (const library of libraries) {
    const module = await LOAD[library]();
    if (module === undefined) continue;
    await refuseOlder(library, LOWEST_VERSIONS);
    return { library, module };
  }
  const install = libraries.map((library) => `npm install ${library}`).join(", or ");
  throw new LockError("unsupported", `a redis:// URL needs a client library. Install one: ${install}.`);
}
