import { ENGINE_NAMES, entryOf, loaderOf } from "../engines.js";
import { compiled } from "./compiled.mjs";

type Versions = Readonly<Record<string, string>>;

const loaders = new Set(ENGINE_NAMES.filter((name) => entryOf(name).libraries.length > 0).map(loaderOf));
const modules = await Promise.all([...loaders].map((folder) => compiled(`${folder}/library.js`)));

/** Of all client libraries, as the engines say it. */
export const LOWEST_VERSIONS: Versions = Object.assign(
  {},
  ...modules.map((module) => (module as { LOWEST_VERSIONS: Versions }).LOWEST_VERSIONS),
);
