import { createConnection, type RowDataPacket } from "mysql2/promise";
import { onTestFinished, test } from "vitest";
import { isMysql, startMariadb } from "../engines/mysql/server.js";
import { BY_POOL, BY_URL, expectBoundedWhileAway } from "./away.js";
import { PRODUCT, versionOf } from "./mysql-servers.js";

/** As MySQL and MariaDB call it. For an hour, a commit waits for a replica. */
const SEMI_SYNC = isMysql() ? "rpl_semi_sync_source" : "rpl_semi_sync_master";
const SETTINGS = [
  ...(isMysql() ? ["--plugin-load-add=semisync_source.so"] : []),
  ...["--log-bin=binlog", "--server-id=1", `--${SEMI_SYNC}_timeout=3600000`],
];

test(`${PRODUCT}, its only semi-synchronous replica away for 60 s: the server does not fill up with connections`, async () => {
  const server = await startMariadb(SETTINGS);
  onTestFinished(() => server.stop());
  // Opened before anything hangs: later there may be no connection left.
  const connection = await createConnection({ uri: server.url, multipleStatements: true });
  onTestFinished(() => connection.destroy());
  const ask = async (sql: string) => (await connection.query<RowDataPacket[]>(sql))[0];
  for (const user of [BY_URL, BY_POOL]) {
    await ask(`CREATE USER '${user}'@'127.0.0.1'; GRANT ALL ON *.* TO '${user}'@'127.0.0.1'`);
  }
  await expectBoundedWhileAway({
    setup: "only semi-synchronous replica away for 60 s",
    server: await versionOf(server.url),
    engine: "mysql",
    url: (user) => server.url.replace("tester@", `${user}@`),
    connections: async (user) => {
      const counted = `SELECT COUNT(*) AS n FROM information_schema.PROCESSLIST WHERE USER = '${user}'`;
      return Number((await ask(counted))[0]?.n);
    },
    hang: async () => void (await ask(`SET GLOBAL ${SEMI_SYNC}_enabled = ON`)),
    resume: async () => void (await ask(`SET GLOBAL ${SEMI_SYNC}_enabled = OFF`)),
    mostByUrl: 4,
  });
});
