// A module of the build that the tests use, for processes of their own.
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const dist = process.env.LOCKTENDER_DIST ?? fileURLToPath(new URL("../../dist", import.meta.url));

export const compiled = (module) => import(pathToFileURL(join(dist, module)).href);
