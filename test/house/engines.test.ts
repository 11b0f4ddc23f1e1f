import { existsSync, readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { chosenEngines, ENGINE_NAMES, entryOf } from "../engines.js";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const HOW = 'see "Adding an engine" in CONTRIBUTING.md';

interface Manifest {
  readonly exports: Readonly<Record<string, unknown>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
}

/** What stands in the tree. */
interface Facts {
  readonly registered: readonly string[];
  /** Folders of src/backends that are engines, and not shared by some. */
  readonly folders: readonly string[];
  /** Of package.json, without "./". */
  readonly exported: readonly string[];
  /** Engines that connect.ts loads. */
  readonly connected: readonly string[];
}

/** What does not agree, one sentence each. */
function disagreements({ registered, folders, exported, connected }: Facts): string[] {
  const all = [...new Set([...registered, ...folders, ...connected])].sort();
  return all.flatMap((name) =>
    [
      registered.includes(name)
        ? ""
        : `test/engines.ts has no line for ${name}, so no test of all engines runs it`,
      folders.includes(name) ? "" : `src/backends has no folder ${name}`,
      exported.includes(name) ? "" : `package.json does not export ./${name}, so no program can import it`,
      connected.includes(name) ? "" : `src/connect.ts does not load ${name}, so no URL opens it`,
    ].flatMap((sentence) => (sentence === "" ? [] : [`${sentence}: ${HOW}`])),
  );
}

const { exports, peerDependencies } = JSON.parse(readFileSync(`${ROOT}package.json`, "utf8")) as Manifest;
const shared = ENGINE_NAMES.map((name) => entryOf(name).shares);
const FACTS: Facts = {
  registered: ENGINE_NAMES,
  folders: readdirSync(`${ROOT}src/backends`).filter((name) => !shared.includes(`backends/${name}`)),
  exported: Object.keys(exports).map((path) => path.slice("./".length)),
  connected: [
    ...readFileSync(`${ROOT}src/connect.ts`, "utf8").matchAll(/\.\/backends\/([\w-]+)\/index\.js/g),
  ].map(([, name = ""]) => name),
};

test("the registry, the folders of src/backends, the exports and connect.ts name the same engines", () => {
  expect(disagreements(FACTS)).toEqual([]);
});

test.each([
  ["registered", "test/engines.ts has no line for new"],
  ["folders", "src/backends has no folder new"],
  ["exported", "package.json does not export ./new"],
  ["connected", "src/connect.ts does not load new"],
] as const)("an engine that is missing in one place is named: %s", (missing, sentence) => {
  const everywhere = { registered: ["new"], folders: ["new"], exported: ["new"], connected: ["new"] };
  expect(disagreements({ ...everywhere, [missing]: [] })).toEqual([expect.stringContaining(sentence)]);
});

test.each(ENGINE_NAMES)("what the tests need of %s is there", (name) => {
  const { libraries, servers, inProcess } = entryOf(name);
  const folder = `test/engines/${name}`;
  const files = [
    `${folder}/engine.ts`,
    `${folder}/harness.ts`,
    ...(servers.length > 0 ? [`${folder}/servers.ts`] : []),
    ...(inProcess === undefined ? [`${folder}/history.test.ts`, `${folder}/worker-backend.mjs`] : []),
    `docs/engines/${name}.md`,
  ];
  expect(
    files.filter((file) => !existsSync(ROOT + file)).map((file) => `${file} is missing: ${HOW}`),
  ).toEqual([]);
  expect(libraries.filter((library) => !(library in peerDependencies))).toEqual([]);
});

test("one engine may be chosen, and one that is not there is answered with those that are", () => {
  expect(chosenEngines("etcd")).toEqual(["etcd"]);
  expect(chosenEngines("")).toEqual(ENGINE_NAMES);
  expect(() => chosenEngines("etcd3")).toThrow(
    'there is no engine "etcd3" in test/engines.ts; there are: memory, sqlite, redis',
  );
});
