import { redis } from "locktender/redis";
import { redisHarness } from "../engines/redis/harness.js";
import { shared } from "../servers/shared.js";
import { clientLibrary } from "../support/client-library.js";
import { byUrl, clientPromises, prefixOf } from "./promises.js";

const { createClient } = await clientLibrary<typeof import("redis")>("redis");
const harness = redisHarness("single", "redis", await shared("redis"));
const prefix = prefixOf(harness);

clientPromises(harness, {
  "by URL": byUrl(harness),
  "by a client of the caller's": async ({ host, port }) => {
    const client = createClient({ socket: { host, port, reconnectStrategy: 20 } });
    client.on("error", () => {}); // what is asked for tells
    await client.connect();
    return {
      backend: redis({ client, prefix }),
      stillWorks: () => client.ping(),
      end: () => client.destroy(),
    };
  },
});
