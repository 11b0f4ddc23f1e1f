// npm run conformance -- <engine>: the suite, the comparison with memory and the history of one engine, on its servers.
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { runnerImport } from "vite";

const path = fileURLToPath(new URL("engines.ts", import.meta.url));
const { ENGINES, ENGINE_NAMES, ENGINE_VARIABLE, unknownEngine } = (
  await runnerImport(path, { configFile: false })
).module;

const [name, ...options] = process.argv.slice(2);
if (name === undefined || !ENGINE_NAMES.includes(name)) {
  const usage = `usage: npm run conformance -- <${ENGINE_NAMES.join("|")}> [options of vitest]`;
  console.error(name === undefined ? usage : unknownEngine(name));
  process.exit(2);
}
const folder = `test/engines/${name}`;
const more = ENGINES[name].inProcess ? [] : [`${folder}/history.test.ts`, "test/model/model.test.ts"];
const files = [`${folder}/conformance`, "test/model/cells.test.ts", ...more];
const vitest = fileURLToPath(new URL("../node_modules/vitest/vitest.mjs", import.meta.url));
spawn(process.execPath, [vitest, "run", ...files, ...options], {
  env: { ...process.env, [ENGINE_VARIABLE]: name },
  stdio: "inherit",
}).on("exit", (code) => process.exit(code ?? 1));
