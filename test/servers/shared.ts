import { inject } from "vitest";
import type { SharedName } from "../engines.js";
import type { SharedServer } from "./shared-server.js";

/** A server that all tests share, under names or keys of their own; no test breaks it. */
export async function shared(name: SharedName): Promise<SharedServer> {
  const response = await fetch(`${inject("servers")}/${name}`);
  if (!response.ok) throw new Error(await response.text());
  return (await response.json()) as SharedServer;
}
