// The benchmark. bench/README.md says what is where, docs/benchmarks.md what the rows mean.
//   npm run bench -- peers [--quick] [--out file.json]   Locktender beside the bare client and other libraries
//   npm run bench -- show                                the newest run of bench/results
//   npm run bench -- publish                             writes the plots and numbers of docs from it
//   npm run bench -- before-after <dist>                 this build beside another one
//   npm run bench -- <subject> …                         files of bench/subjects: engines, etcd, hand-off, idle-names, …
import { readdirSync } from "node:fs";
import { parseArgs } from "node:util";
import { progress } from "./lib/progress.mjs";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { quick: { type: "boolean", default: false }, out: { type: "string" } },
});
const [command = "peers", ...rest] = positionals;
const commands = { peers, show, publish, "before-after": beforeAfter };
await (commands[command] ?? subjects)();

async function peers() {
  const { measurePeers } = await import("./peers.mjs");
  const { keep, textOf } = await import("./report/run.mjs");
  const run = JSON.parse(textOf(await measurePeers({ quick: values.quick, progress: progress() })));
  await print(run);
  // A quick run is for the eye. It is kept only where it is told to.
  if (values.quick)
    console.log("\nA quick run shows where things stand. Its slices are too short to judge waits by them.");
  if (!values.quick || values.out) console.log(`\nkept as ${await keep(run, values.out)}`);
}

async function show() {
  const { newestRun } = await import("./report/run.mjs");
  await print(newestRun());
}

async function print(run) {
  const { barTable, contenderTables } = await import("./report/table.mjs");
  console.log(`\n${contenderTables(run).join("\n\n")}\n\n${barTable(run)}`);
}

async function publish() {
  const { publish } = await import("./report/publish.mjs");
  for (const path of await publish()) console.log(path);
}

async function beforeAfter() {
  const [dist] = rest;
  if (dist === undefined) throw new Error("npm run bench -- before-after <dist>: the build to compare with");
  const { measureBeforeAfter } = await import("./before-after.mjs");
  const slower = await measureBeforeAfter(dist, { progress: progress(), print: console.log });
  if (slower > 0) process.exitCode = 1;
}

async function subjects() {
  const known = readdirSync(new URL("subjects/", import.meta.url)).map((file) => file.replace(/\.mjs$/, ""));
  const unknown = positionals.find((name) => !known.includes(name));
  if (unknown !== undefined) {
    throw new Error(
      `"${unknown}" is not measured; there are: ${[...Object.keys(commands), ...known].join(", ")}`,
    );
  }
  const { startRedis } = await import("./servers/redis.mjs");
  const server = await startRedis();
  try {
    for (const name of positionals) {
      const { measure } = await import(`./subjects/${name}.mjs`);
      console.log(`\n${name}`);
      for await (const line of measure(server)) console.log(`  ${line}`);
    }
  } finally {
    await server.stop();
  }
}
