import { onTestFinished, test } from "vitest";
import { askPostgres } from "../engines/postgres/server.js";
import { BY_POOL, BY_URL, expectBoundedWhileAway } from "./away.js";
import { PostgresServers } from "./postgres-servers.js";

test("PostgreSQL, its only synchronous standby away for 60 s: the server does not fill up with connections", async () => {
  const servers = await PostgresServers.start();
  onTestFinished(() => servers.stop());
  const { url } = servers.primary;
  for (const user of [BY_URL, BY_POOL]) await askPostgres(url, `CREATE ROLE ${user} SUPERUSER LOGIN`);
  await servers.addStandby({ synchronous: true });
  await expectBoundedWhileAway({
    setup: "only synchronous standby away for 60 s",
    server: await servers.version(),
    engine: "postgres",
    url: (user) => url.replace("postgres@", `${user}@`),
    connections: async (user) => {
      const counted = `SELECT count(*)::int AS n FROM pg_stat_activity WHERE usename = '${user}'`;
      return Number((await askPostgres(url, counted))[0]?.n);
    },
    hang: async () => servers.holdBack(),
    resume: async () => servers.deliver(),
    // Besides `connections`: one that listens, and for a moment one that tries whether listening works.
    mostByUrl: 4 + 2,
  });
});
