import { execFile } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { installPeers, PEERS } from "../migration/peers.js";
import { fromVariable } from "../servers/installed.js";
import { ensurePrograms } from "../servers/programs.js";
import { CHROMIUM } from "../site/chromium.js";
import { besideLibraries } from "../support/other-libraries.js";
import { unpacked } from "./debian.js";
import {
  CLIENTS,
  type ClientRow,
  FAILOVERS,
  type FailoverRow,
  INSTALL_FILE,
  INSTALLED,
  MIGRATION_FILES,
  NODE_FILES,
  NODE_SQLITE_FILES,
  NODES,
  NODES_WITH_SQLITE,
  RUNTIMES,
  type RuntimeRow,
  SERVERS,
  type ServerRow,
  SITE_FILE,
} from "./matrix.js";
import { firstOf, type NpmPackages, npmInstalled, npmServer, npmVersion, pinned } from "./npm.js";
import { BUNDLERS, type BundlerRow, FRAMEWORKS, TEST_TOOLS, TYPESCRIPTS } from "./projects.js";

/** A row of the table, and how to find out what it says. */
export interface Job {
  readonly id: string;
  readonly group:
    | "servers"
    | "node"
    | "runtimes"
    | "clients"
    | "bundlers"
    | "frameworks"
    | "typescript"
    | "test-tools"
    | "install"
    | "migration"
    | "site"
    | "failovers";
  readonly product: string;
  /** Which of the versions of that product it is, in words. */
  readonly which: string;
  /** Downloads what is not in the cache. */
  prepare(): Promise<Prepared>;
}

export interface Prepared {
  readonly version: string;
  readonly node: string;
  readonly files: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Of vitest, where it is not the ordinary one. */
  readonly config?: string;
  cleanUp?(): Promise<void>;
}

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const NODE_PACKAGE = `node-${process.platform}-${process.arch}`;
/** For native code of npm packages. */
const COMPILER_PROGRAMS = ["g++", "make", "python3"].map((program) => ({ program, package: program }));
const here = { node: process.execPath, env: {} };

/** What takes longest comes first. */
export const JOBS: readonly Job[] = [
  ...Object.entries(FAILOVERS).map(([id, row]) => failoverJob(id, row)),
  ...Object.entries(SERVERS).map(([id, row]) => serverJob(id, row)),
  ...Object.entries(NODES).map(([id, version]) => nodeJob(id, version)),
  ...Object.entries(RUNTIMES).map(([id, row]) => runtimeJob(id, row)),
  ...Object.entries(CLIENTS).map(([id, row]) => clientJob(id, row)),
  ...Object.entries(BUNDLERS).map(([id, row]) => bundlerJob(id, row)),
  ...Object.entries(FRAMEWORKS).map(([id, row]) => frameworkJob(id, row)),
  ...Object.entries(TEST_TOOLS).map(([id, row]) => testToolJob(id, row)),
  ...Object.entries(TYPESCRIPTS).map(([id, packages]) => typescriptJob(id, packages)),
  installJob(),
  migrationJob(),
  siteJob(),
];

function serverJob(id: string, { product, server, from, files }: ServerRow): Job {
  return {
    id,
    group: "servers",
    product,
    which: "npm" in from ? "npm" : `Debian ${from.suite}`,
    async prepare() {
      const { folder, version } = await serverIn(from);
      return { ...here, version, files, env: { [fromVariable(server)]: folder } };
    },
  };
}

export async function serverIn(from: ServerRow["from"]): Promise<{ folder: string; version: string }> {
  if (!("npm" in from)) return await unpacked(from);
  const folder = await npmServer(from);
  // What follows the two numbers is of the packaging, and not of the server.
  return { folder, version: (await npmVersion(folder, firstOf(from.npm))).replace(/^(\d+\.\d+).*$/, "$1") };
}

async function nodeIn(id: string): Promise<{ folder: string; version: string }> {
  const folder = await npmInstalled({ [NODE_PACKAGE]: NODES[id] ?? "" });
  return {
    folder: join(folder, "node_modules", NODE_PACKAGE),
    version: await npmVersion(folder, NODE_PACKAGE),
  };
}

function nodeJob(id: string, wanted: string): Job {
  return {
    id,
    group: "node",
    product: "Node.js",
    which: whichOf(wanted),
    async prepare() {
      const { folder, version } = await nodeIn(id);
      const files = [...NODE_FILES, ...(NODES_WITH_SQLITE.includes(id) ? NODE_SQLITE_FILES : [])];
      return { ...here, version, files, node: join(folder, "bin", "node") };
    },
  };
}

function runtimeJob(id: string, { product, packages, version: wanted, program, args }: RuntimeRow): Job {
  return {
    id,
    group: "runtimes",
    product,
    which: whichOf(wanted),
    async prepare() {
      const name = packages[process.arch];
      if (name === undefined) throw new Error(`there is no package of ${product} for ${process.arch}`);
      const folder = await npmInstalled({ [name]: wanted });
      const command = [join(folder, "node_modules", name, program), ...args];
      return {
        ...here,
        version: await npmVersion(folder, name),
        files: ["test/runtimes"],
        env: { LOCKTENDER_TEST_RUNTIME: JSON.stringify(command) },
      };
    },
  };
}

function clientJob(id: string, { packages, files, native }: ClientRow): Job {
  const names = Object.keys(packages);
  return {
    id,
    group: "clients",
    product: names.join(", "),
    which: whichOf(packages[firstOf(packages)] ?? ""),
    async prepare() {
      if (native !== undefined) await ensurePrograms(COMPILER_PROGRAMS);
      const node = native === undefined ? undefined : (await nodeIn(native.node)).folder;
      const isHere = Object.values(packages).includes(INSTALLED);
      const setup = native && node ? { script: native.script, nodeFolder: node } : undefined;
      const folder = isHere ? ROOT : await npmInstalled(packages, setup);
      const versions = await Promise.all(names.map((name) => npmVersion(folder, name)));
      const prepared = { ...here, version: versions.join(", "), files };
      if (isHere) return prepared;
      const libraries = Object.fromEntries(names.map((name) => [name, name]));
      const beside = await besideLibraries(libraries, join(folder, "node_modules"));
      return {
        ...prepared,
        node: node === undefined ? here.node : join(node, "bin", "node"),
        env: { LOCKTENDER_DIST: beside.dist },
        cleanUp: () => beside.remove(),
      };
    },
  };
}

function bundlerJob(id: string, { product, packages, files }: BundlerRow): Job {
  const name = firstOf(packages);
  return {
    id,
    group: "bundlers",
    product,
    which: whichOf(packages[name] ?? ""),
    async prepare() {
      const folder = await npmInstalled(packages);
      const env = {
        LOCKTENDER_TEST_BUNDLER: product,
        LOCKTENDER_TEST_BUNDLER_FROM: join(folder, "node_modules"),
      };
      return { ...here, version: await npmVersion(folder, name), files, env };
    },
  };
}

function frameworkJob(id: string, { product, packages, files }: BundlerRow): Job {
  const name = firstOf(packages);
  return {
    id,
    group: "frameworks",
    product,
    which: whichOf(packages[name] ?? ""),
    async prepare() {
      const folder = await npmInstalled(packages);
      const env = { LOCKTENDER_TEST_FRAMEWORK_FROM: join(folder, "node_modules") };
      return { ...here, version: await npmVersion(folder, name), files, env };
    },
  };
}

function testToolJob(id: string, { packages, files }: Omit<BundlerRow, "product">): Job {
  const name = firstOf(packages);
  return {
    id,
    group: "test-tools",
    product: "Jest",
    which: whichOf(packages[name] ?? ""),
    async prepare() {
      const folder = await npmInstalled(packages);
      const env = { LOCKTENDER_TEST_TOOLS_FROM: join(folder, "node_modules") };
      return { ...here, version: await npmVersion(folder, name), files, env };
    },
  };
}

function typescriptJob(id: string, packages: NpmPackages): Job {
  return {
    id,
    group: "typescript",
    product: "TypeScript",
    which: whichOf(packages.typescript ?? ""),
    async prepare() {
      const folder = await npmInstalled(packages);
      const env = { LOCKTENDER_TEST_TYPESCRIPT_FROM: join(folder, "node_modules") };
      return { ...here, version: await npmVersion(folder, "typescript"), files: ["test/typescript"], env };
    },
  };
}

function installJob(): Job {
  return {
    id: "install",
    group: "install",
    product: "npm",
    which: "of this machine",
    async prepare() {
      const { stdout } = await run("npm", ["--version"]);
      return { ...here, version: stdout.trim(), files: [INSTALL_FILE] };
    },
  };
}

/** One row for all of them: each is small, and they contend with Locktender in the same way. */
function migrationJob(): Job {
  return {
    id: "migration",
    group: "migration",
    product: PEERS.join(", "),
    which: "of the benchmark",
    async prepare() {
      const folder = await installPeers();
      const versions = await Promise.all(PEERS.map((name) => npmVersion(folder, name)));
      return { ...here, version: versions.join(", "), files: MIGRATION_FILES };
    },
  };
}

/** What it shows is said of the pages, and not of the package. */
function siteJob(): Job {
  return {
    id: "site",
    group: "site",
    product: "Chromium",
    which: "of this machine",
    async prepare() {
      await ensurePrograms([CHROMIUM]);
      await pinned("site", join(ROOT, "scripts/site"));
      const { stdout } = await run(CHROMIUM.program, ["--version"]);
      return { ...here, version: /[\d.]+/.exec(stdout)?.[0] ?? "", files: [SITE_FILE] };
    },
  };
}

function failoverJob(id: string, { files, on }: FailoverRow): Job {
  const config = "test/failover/vitest.config.ts";
  const row = SERVERS[on ?? ""];
  return {
    id,
    group: "failovers",
    product: row?.product ?? "servers of this machine",
    which: files.join(", "),
    async prepare() {
      const prepared = row === undefined ? { ...here, version: "" } : await serverJob(id, row).prepare();
      return { ...prepared, config, files: files.map((file) => `test/failover/${file}.failover.ts`) };
    },
  };
}

function whichOf(wanted: string): string {
  if (wanted === INSTALLED) return "newest";
  return /^\d+$/.test(wanted) ? `newest ${wanted}` : wanted;
}
