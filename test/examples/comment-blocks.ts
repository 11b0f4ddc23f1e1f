import { readdirSync, readFileSync } from "node:fs";
import { ROOT } from "./blocks.js";

/** The code of an `@example` in a comment of the source. */
export interface Example {
  /** As in `src/core/options.ts:20`, so that people find it. */
  readonly at: string;
  readonly text: string;
  /** It names the address of a server, or makes a client of one. */
  readonly needsServer: boolean;
}

const SERVER = /:\/\/127\.0\.0\.1|from "(ioredis|pg)"/;

/** All of them; one without a block of code in the language `ts` is an error. */
export function examplesInComments(): readonly Example[] {
  const files = readdirSync(`${ROOT}src`, { recursive: true, encoding: "utf8" }).sort();
  return files.filter((file) => file.endsWith(".ts")).flatMap((file) => examplesIn(`src/${file}`));
}

function examplesIn(file: string): Example[] {
  const source = readFileSync(ROOT + file, "utf8");
  return [...source.matchAll(/^ *\* @example$/gm)].map(({ index }) => {
    const at = `${file}:${source.slice(0, index).split("\n").length}`;
    const comment = source.slice(index, source.indexOf("*/", index)).replace(/^ *\* ?/gm, "");
    const [, text] = /^@example\n```ts\n([\s\S]*?)^```$/m.exec(comment) ?? [];
    if (text === undefined) throw new Error(`${at}: no block of ts follows @example`);
    return { at, text, needsServer: SERVER.test(text) };
  });
}
