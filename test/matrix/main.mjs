// npm run test:matrix. The tests are TypeScript, which the oldest Node.js that we support does not run by itself.
import { fileURLToPath } from "node:url";
import { runnerImport } from "vite";

const path = fileURLToPath(new URL("main.ts", import.meta.url));
const { module } = await runnerImport(path, { configFile: false });
process.exitCode = await module.main(process.argv.slice(2));
