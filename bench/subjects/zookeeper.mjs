import { startZooKeeper } from "../servers/zookeeper.mjs";
import { besideWaiters } from "../workloads/waiters.mjs";

/** What a grant costs one server when 10, 100 and 1,000 wait. Beside Curator: npm run bench -- peers. */
export async function* measure() {
  const server = await startZooKeeper();
  try {
    yield* besideWaiters(server, server.received);
  } finally {
    await server.stop();
  }
}
