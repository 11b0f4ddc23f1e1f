import { spawn } from "node:child_process";
import { createServer } from "node:net";

const UP_WITHIN_MS = 60_000;

/**
 * Starts a server and waits until it answers. It may end instead, as when another program has taken its port meanwhile.
 * Gives its pid, and a function that stops it.
 */
export async function startProcess([program, ...args], { cwd, isUp }) {
  const child = spawn(program, args.map(String), { cwd, stdio: "ignore" });
  const exited = new Promise((resolve) => child.once("exit", resolve));
  const failed = new Promise((_, reject) => child.once("error", reject));
  // Without a handler of its own, a failure that comes while nothing waits for it would end the process.
  failed.catch(() => undefined);
  // A benchmark that fails leaves no server behind.
  const kill = () => child.kill("SIGKILL");
  process.once("exit", kill);
  child.once("exit", () => process.off("exit", kill));
  const stop = async (signal) => {
    child.kill(signal);
    await exited;
  };
  const untilMs = performance.now() + UP_WITHIN_MS;
  while (!(await Promise.race([failed, isUp(child.pid).catch(() => false)]))) {
    if (child.exitCode !== null) throw new Error(`${program} has ended with ${child.exitCode}`);
    if (performance.now() > untilMs) {
      await stop("SIGKILL");
      throw new Error(`${program} does not answer after ${UP_WITHIN_MS} ms`);
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return { pid: child.pid, stop };
}

export async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}
