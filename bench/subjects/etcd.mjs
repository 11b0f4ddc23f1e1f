import { startEtcd } from "../servers/etcd.mjs";
import { besideWaiters } from "../workloads/waiters.mjs";

/** What a grant costs one server when 10, 100 and 1,000 wait. */
export async function* measure() {
  const server = await startEtcd();
  try {
    yield* besideWaiters(server, server.received);
  } finally {
    await server.stop();
  }
}
