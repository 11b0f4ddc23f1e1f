import { spawn } from "node:child_process";
import { once } from "node:events";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { freePort } from "../servers/free-port.js";
import { shared } from "../servers/shared.js";
import { copyPrograms, instructionsIn, newProject, perform } from "./project.js";

const START_TIMEOUT_MS = 30_000;
const ROUTE = `import { main } from "./main.mjs";

export const dynamic = "force-dynamic";
export const GET = async () => Response.json(await main(process.env.TEST_URL));
`;
const LAYOUT = `export default function Layout({ children }) {
  return <html><body>{children}</body></html>;
}
`;

let project: Awaited<ReturnType<typeof newProject>>;

beforeAll(async () => {
  project = await newProject();
  const app = join(project.folder, "app");
  for (const route of ["own", "connect"]) {
    const programs = { "turn.mjs": "turn.mjs", [`${route}.mjs`]: "main.mjs" };
    await copyPrograms(programs, join(app, route));
    await writeFile(join(app, route, "route.js"), ROUTE);
  }
  await writeFile(join(app, "layout.jsx"), LAYOUT);
});

afterAll(() => project.remove());

test("Next.js builds route handlers that lock, and serves them without the packages that it has built in", async () => {
  const { folder } = project;
  const output = await perform(instructionsIn("Next.js").command, folder);
  expect(output).not.toMatch(/warning|Module not found|Can't resolve/i);
  for (const name of ["locktender", "ioredis", "libsql"]) {
    await rm(join(folder, "node_modules", name), { recursive: true });
  }
  const port = await freePort();
  const server = spawn(process.execPath, ["node_modules/next/dist/bin/next", "start", "-p", String(port)], {
    cwd: folder,
    env: { ...process.env, NODE_ENV: "production", TEST_URL: (await shared("redis")).url },
    stdio: "ignore",
  });
  try {
    const ask = async (route: string) => (await fetch(`http://127.0.0.1:${port}/${route}`)).json();
    const seen = { token: "bigint", error: "LockTimeoutError" };
    await expect
      .poll(() => ask("own"), { timeout: START_TIMEOUT_MS, interval: 200 })
      .toEqual({ client: "given", ...seen });
    const refused = expect.stringMatching(/npm install @grpc\/grpc-js @grpc\/proto-loader$/);
    expect(await ask("connect")).toEqual({ client: "ioredis", ...seen, refused });
  } finally {
    server.kill("SIGKILL");
    await once(server, "close");
  }
}, 120_000);
