import { fileURLToPath } from "node:url";

/**
 * The path of a program beside this file. In a module of its own, which is imported when a process is started: test
 * tools that make CommonJS of the package cannot load a module that says `import.meta`.
 */
export function scriptPath(name: string): string {
  return fileURLToPath(new URL(name, import.meta.url));
}
