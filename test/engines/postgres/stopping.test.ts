import { Client } from "pg";
import { expect, onTestFinished, test } from "vitest";
import { makeCertificates } from "../../servers/certificates.js";
import { startPostgres } from "./server.js";
import { backend, newPrefix, request, sleep } from "./tools.js";

async function admin(url: string): Promise<Client> {
  const client = new Client({ connectionString: url });
  client.on("error", () => {});
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

/** So long a busy server may take to notice that a connection was cut off. */
const NOTICED_MS = 500;

/** Asks for that long, and tells the most connections that lasted meanwhile. */
async function mostConnections(
  ask: () => Promise<unknown>,
  count: () => Promise<number>,
  forMs: number,
): Promise<number> {
  const until = performance.now() + forMs;
  const looks: { readonly atMs: number; readonly seen: number }[] = [];
  let most = 0;
  const asking = async () => {
    while (performance.now() < until) await ask().catch(() => undefined);
  };
  const watching = async () => {
    while (performance.now() < until) {
      looks.push({ atMs: performance.now(), seen: await count() });
      while ((looks[1]?.atMs ?? Infinity) <= performance.now() - NOTICED_MS) looks.shift();
      most = Math.max(most, Math.min(...looks.map(({ seen }) => seen)));
      await sleep(20);
    }
  };
  await Promise.all([watching(), ...Array.from({ length: 8 }, asking)]);
  return most;
}

/** In a transaction, the server would go on telling what it was asked first. */
async function rowsNow(client: Client, text: string): Promise<Record<string, unknown>[]> {
  await client.query("SELECT pg_stat_clear_snapshot()");
  return (await client.query(text)).rows;
}

test("requests that cannot be stopped take one connection more, and no further ones", async () => {
  const server = await startPostgres();
  onTestFinished(() => server.stop());
  const prefix = newPrefix();
  const one = backend({ url: server.url, prefix, connections: 4, timeout: "200ms", listen: false });
  const watcher = await admin(server.url);
  const ours = "SELECT pid FROM pg_stat_activity WHERE application_name = 'locktender'";
  await expect
    .poll(
      async () => {
        const names = Array.from({ length: 16 }, (_, index) => `warm-${index}`);
        await Promise.all(names.map((name) => one.claim(request(name)).catch(() => undefined)));
        return (await rowsNow(watcher, ours)).length;
      },
      { timeout: 20_000 },
    )
    .toBe(4);
  // As in a disk that does not answer: the processes do not even see that they are told to stop.
  const pids = (await rowsNow(watcher, ours)).map(({ pid }) => Number(pid));
  for (const pid of pids) process.kill(pid, "SIGSTOP");
  const count = async () => (await rowsNow(watcher, ours)).length;
  const most = await mostConnections(() => one.claim(request("e")), count, 5_000);
  for (const pid of pids) process.kill(pid, "SIGCONT");
  expect(most).toBeGreaterThanOrEqual(4);
  expect(most).toBeLessThanOrEqual(4 + 1);
  await expect
    .poll(
      () =>
        one.claim(request("f")).then(
          ({ state }) => state,
          () => "",
        ),
      { timeout: 20_000 },
    )
    .toBe("granted");
});

test("with TLS a request that hangs is cancelled on the server, too", async () => {
  const { ca, server: own } = await makeCertificates();
  const server = await startPostgres({
    settings: ["ssl = on", "ssl_cert_file = '../cert'", "ssl_key_file = '../key'"],
    files: { cert: own.cert, key: own.key },
  });
  onTestFinished(() => server.stop());
  const prefix = newPrefix();
  const url = `${server.url}?sslmode=require`;
  await backend({ url: server.url, prefix, timeout: "20s" }).claim(request("a"));
  const blocker = await admin(server.url);
  await blocker.query("BEGIN");
  await blocker.query(`UPDATE "${prefix}".resources SET last_ticket = last_ticket + 1`);
  const one = backend({ url, tls: { ca }, prefix, connections: 3, timeout: "300ms", listen: false });
  const count = async () =>
    Number((await rowsNow(blocker, "SELECT count(*) AS n FROM pg_stat_ssl WHERE ssl"))[0]?.n);
  expect(await mostConnections(() => one.claim(request("a")), count, 4_000)).toBeLessThanOrEqual(3);
});
