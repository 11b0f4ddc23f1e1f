// The build that the tests use, for processes of their own: its modules, and the packages that it finds.
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const dist = process.env.LOCKTENDER_DIST ?? fileURLToPath(new URL("../../dist", import.meta.url));

export const compiled = (module) => import(pathToFileURL(join(dist, module)).href);

/** In the matrix, other versions of client libraries lie beside a copy of the build. */
export const fromBuild = createRequire(join(dist, "index.js"));
