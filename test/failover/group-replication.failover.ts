import { randomUUID } from "node:crypto";
import { onTestFinished, test } from "vitest";
import { askMariadb, isMysql, type Mariadb } from "../engines/mysql/server.js";
import { freePorts } from "../servers/free-port.js";
import { stopAll } from "../servers/server-process.js";
import { startAddress } from "./address.js";
import { expectThroughFailovers } from "./harness.js";
import { backendAt, GTID, startServer, versionOf } from "./mysql-servers.js";
import { until } from "./until.js";

const MEMBERS = 4;
const MEMBERS_SQL = `SELECT MEMBER_PORT AS port, MEMBER_STATE AS state, MEMBER_ROLE AS role
  FROM performance_schema.replication_group_members`;

/** Members of one group, of which one takes writes. */
async function startGroup(): Promise<Mariadb[]> {
  const group = randomUUID();
  const ports = await freePorts(MEMBERS);
  const seeds = ports.map((port) => `127.0.0.1:${port}`);
  const members: Mariadb[] = [];
  onTestFinished(() => stopAll(members));
  for (const [index, seed] of seeds.entries()) {
    const member = await startServer({}, [
      ...GTID,
      ...["--plugin-load-add=group_replication.so", "--report-host=127.0.0.1"],
      `--group-replication-group-name=${group}`,
      `--group-replication-local-address=${seed}`,
      `--group-replication-group-seeds=${seeds.join(",")}`,
      "--group-replication-start-on-boot=OFF",
      // A member that is killed is missed after 5 s, and then there is no waiting for it.
      "--group-replication-member-expel-timeout=0",
      "--group-replication-recovery-get-public-key=ON",
    ]);
    members.push(member);
    // What it has written so far is its own, and nothing of the group's.
    await askMariadb(member.url, "RESET BINARY LOGS AND GTIDS");
    const first = index === 0 ? "SET GLOBAL group_replication_bootstrap_group = ON;" : "";
    await askMariadb(
      member.url,
      `${first} START GROUP_REPLICATION USER = 'tester'; SET GLOBAL group_replication_bootstrap_group = OFF`,
    );
    const online = `SELECT COUNT(*) AS n FROM (${MEMBERS_SQL}) AS members WHERE state = 'ONLINE'`;
    await until(
      "it is a member",
      async () => Number((await askMariadb(member.url, online))[0]?.n) === index + 1,
    );
  }
  return members;
}

test.skipIf(!isMysql())("mysql, Group Replication, the primary killed: one holder at a time", async () => {
  const members = await startGroup();
  const [first] = members;
  if (first === undefined) throw new Error("there is no member");
  const address = await startAddress(first.port);
  onTestFinished(() => address.stop());
  await expectThroughFailovers({
    setup: "Group Replication, primary killed",
    promised: { overlaps: "none", leases: "kept" },
    server: await versionOf(first.url),
    backend: backendAt(address.port),
    failovers: 2,
    failOver: async () => {
      const [primary] = members.splice(
        members.findIndex(({ port }) => port === address.target),
        1,
      );
      await primary?.process.kill();
      await primary?.stop();
      await until("there is a new primary", async () => {
        const rows = await askMariadb(members[0]?.url ?? "", MEMBERS_SQL);
        const port = Number(rows.find(({ role, state }) => role === "PRIMARY" && state === "ONLINE")?.port);
        if (!members.some((member) => member.port === port)) return false;
        address.moveTo(port);
        return true;
      });
    },
  });
});
