import { spawn } from "node:child_process";

/** Ends with its parent, however that ends. */
const LOOP = `const parent = Number(process.argv[1]);
while (process.ppid === parent) for (let turn = 0; turn < 1e7; turn++);`;

/** Runs the work while another process keeps one core busy. */
export async function besideBusyCore(work) {
  const child = spawn(process.execPath, ["-e", LOOP, String(process.pid)], { stdio: "ignore" });
  try {
    return await work();
  } finally {
    child.kill("SIGKILL");
    await new Promise((resolve) => child.once("exit", resolve));
  }
}
