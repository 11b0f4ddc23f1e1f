import { redis } from "locktender/redis";
import { redisHarness } from "../engines/redis/harness.js";
import { shared } from "../servers/shared.js";
import { clientLibrary } from "../support/client-library.js";
import { byUrl, clientPromises, prefixOf } from "./promises.js";

const { default: Redis } = await clientLibrary<typeof import("ioredis")>("ioredis");
const harness = redisHarness("single", "ioredis", await shared("redis"));
const prefix = prefixOf(harness);

clientPromises(harness, {
  "by URL": byUrl(harness),
  "by a client of the caller's": ({ host, port }) => {
    const client = new Redis(port, host, { retryStrategy: () => 20 });
    client.on("error", () => {}); // what is asked for tells
    return {
      backend: redis({ client, prefix }),
      stillWorks: () => client.ping(),
      end: () => client.disconnect(),
    };
  },
});
