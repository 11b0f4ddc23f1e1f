import { FLOOR_BOUND_US, TicketFloor } from "#lib/engine-kit/queue.js";
import type { Process } from "./state.js";

/** How tickets are drawn: what a process sends as the lowest one, and what it remembers of the answers. */
export type Design = "the clock alone" | "the highest seen" | "the estimated clock";

/** The lowest ticket that the process asks for, by its own clock in ms. */
export function floorOf(design: Design, { seen }: Process, atMs: number): number {
  if (design === "the clock alone") return 0;
  if (design === "the highest seen") return Math.max(0, ...seen.map(([[ticket]]) => ticket + 1));
  const floor = new TicketFloor();
  for (const [[ticket], seenAt] of seen) floor.observe(BigInt(ticket), seenAt * 1_000);
  return floor.lowest(atMs);
}

/** What a server draws: the engines say the same in their own words. */
export function draw(last: number, clockUs: number, floor: number): number {
  return Math.max(last + 1, clockUs, floor <= clockUs + FLOOR_BOUND_US ? floor : 0);
}
