import { connect } from "locktender";
import { expect, onTestFinished, test } from "vitest";
import { shared } from "../servers/shared.js";

async function clientsOf(url: string, options: { readonly prefix?: string } = {}) {
  const open = (instance: string) => connect(url, { ...options, owner: { instance } });
  const clients = await Promise.all(["0", "1", "2", "3"].map(open));
  onTestFinished(async () => {
    await Promise.all(clients.map((client) => client.close({ drain: 0, abort: 0 })));
  });
  return clients.map(({ web }) => web);
}

function gate(): { opened: Promise<void>; open: () => void } {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

test.each(["redis", "postgres", "etcd"] as const)(
  "%s: all connections of a program to one server keep the order of its requests",
  async (engine) => {
    const [watcher, ...clients] = await clientsOf((await shared(engine)).url, {
      prefix: `program_${process.pid}`,
    });
    for (let round = 0; round < 5; round++) {
      const name = `round ${round}`;
      const called: number[] = [];
      const end = gate();
      const order = [2, 0, 1, 1, 2, 0];
      const waiting = [
        watcher?.request(name, () => end.opened),
        ...order.map((at) => clients[at]?.request(name, () => void called.push(at))),
      ];
      // Of another client, and for another name: it is called when all those are in the queue.
      await clients[0]?.request(`${name} checkpoint`, () => undefined);
      const seen = await watcher?.query();
      expect(seen?.pending.map(({ clientId }) => Number(clientId) - 1)).toEqual(order);
      end.open();
      await Promise.all(waiting);
      expect(called).toEqual(order);
      expect(await watcher?.query()).toEqual({ held: [], pending: [] });
    }
  },
);

test("a lock that only has the same name and address is not waited for", async () => {
  // Each has its own locks.
  const [one, other] = await clientsOf("memory:");
  const end = gate();
  const holding = one?.request("a", { mode: "shared" }, () => end.opened);
  const waiting = one?.request("a", () => "waited");
  await one?.query();
  const startMs = performance.now();
  expect(await other?.request("a", { mode: "shared" }, () => "at once")).toBe("at once");
  expect(performance.now() - startMs).toBeLessThan(500);
  end.open();
  expect(await Promise.all([holding, waiting])).toEqual([undefined, "waited"]);
});
