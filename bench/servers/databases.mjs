import { execFile } from "node:child_process";
import { readdirSync } from "node:fs";
import { chown, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { freePort, startProcess } from "./process.mjs";

const run = promisify(execFile);

/** A folder on the disk, for a server that refuses to run as root. */
async function folderFor(user) {
  const folder = await mkdtemp(join(tmpdir(), "locktender-bench-"));
  if (process.getuid() !== 0) return { folder, as: [] };
  const id = async (flag) => Number((await run("id", [flag, user])).stdout);
  await chown(folder, await id("-u"), await id("-g"));
  return { folder, as: ["setpriv", `--reuid=${user}`, `--regid=${user}`, "--clear-groups"] };
}

async function start(command, folder, isUp) {
  const server = await startProcess(command, { cwd: folder, isUp });
  return async (signal) => {
    await server.stop(signal);
    await rm(folder, { recursive: true, force: true });
  };
}

async function versionOf(program) {
  return /\d+(\.\d+)+/.exec((await run(program, ["--version"])).stdout)[0];
}

/** A PostgreSQL of our own with its usual settings: every commit waits for the disk. */
export async function startPostgres() {
  const { Client } = (await import("pg")).default;
  const { folder, as } = await folderFor("postgres");
  const port = await freePort();
  const version = readdirSync("/usr/lib/postgresql")
    .sort((a, b) => a - b)
    .at(-1);
  const bin = (name) => `/usr/lib/postgresql/${version}/bin/${name}`;
  const data = join(folder, "data");
  const init = [...as, bin("initdb"), "-D", data, "-A", "trust", "-U", "postgres"];
  await run(init[0], init.slice(1), { cwd: folder });
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  const command = [...as, bin("postgres"), "-D", data, "-p", String(port), "-k", ""];
  const stop = await start(command, folder, async () => {
    const client = new Client({ connectionString: url });
    client.on("error", () => {});
    await client.connect();
    await client.end();
    return true;
  });
  return { url, version: () => versionOf(bin("postgres")), stop: () => stop("SIGINT") };
}

/** A MariaDB of our own with its usual settings. */
export async function startMariadb() {
  const { createConnection } = await import("mysql2/promise");
  const { folder, as } = await folderFor("mysql");
  const port = await freePort();
  const data = `--datadir=${folder}/data`;
  const init = [
    ...as,
    "mariadb-install-db",
    "--no-defaults",
    data,
    "--auth-root-authentication-method=normal",
  ];
  await run(init[0], init.slice(1), { cwd: folder });
  const command = [
    ...as,
    "/usr/sbin/mariadbd",
    "--no-defaults",
    data,
    `--socket=${folder}/s`,
    `--port=${port}`,
  ];
  const url = `mysql://root@127.0.0.1:${port}/test`;
  const stop = await start([...command, "--bind-address=127.0.0.1"], folder, async () => {
    const connection = await createConnection({ uri: url });
    await connection.end();
    return true;
  });
  return { url, version: () => versionOf("/usr/sbin/mariadbd"), stop: () => stop("SIGTERM") };
}
