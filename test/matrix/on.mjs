// Runs a command with another version of a server: node test/matrix/on.mjs mysql-sid npx vitest run test/engines/mysql
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { runnerImport } from "vite";

const load = async (file) => {
  const path = fileURLToPath(new URL(file, import.meta.url));
  return (await runnerImport(path, { configFile: false })).module;
};

const { SERVERS } = await load("matrix.ts");
const { serverIn } = await load("jobs.ts");
const { fromVariable } = await load("../servers/installed.ts");

const [id, program, ...args] = process.argv.slice(2);
const row = SERVERS[id];
if (row === undefined || program === undefined) {
  console.error(`usage: node test/matrix/on.mjs <${Object.keys(SERVERS).join("|")}> <command>`);
  process.exit(2);
}
const { folder, version } = await serverIn(row.from);
console.log(`${row.product} ${version} in ${folder}`);
const env = { ...process.env, [fromVariable(row.server)]: folder };
spawn(program, args, { env, stdio: "inherit" }).on("exit", (code) => process.exit(code ?? 1));
