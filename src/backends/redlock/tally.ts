// What a majority has decided. Pure: the model check in test/engines/redlock explores what follows from it.

/** A grant needs this many votes: two sets of them always have a node in common. */
export function majorityOf(nodes: number): number {
  return Math.floor(nodes / 2) + 1;
}

/**
 * The ticket that votes with these tickets amount to, once a majority has voted: greater than all tickets
 * handed out before, because it is not lower than those of a majority, and one of that majority has seen each
 * earlier one. Not simply the greatest: so a minority of clocks that are wrong has no say where all have voted.
 */
export function ticketOf(tickets: readonly number[], majority: number): number | undefined {
  return tickets.toSorted((a, b) => a - b)[majority - 1];
}

/** How many nodes have a counter that has reached the ticket: with a majority, no later one can be lower. */
export function reached(tickets: readonly number[], ticket: number): number {
  return tickets.filter((drawn) => drawn >= ticket).length;
}

/** For how long a majority keeps what each of these nodes keeps for its time. */
export function keptBy(times: readonly number[], majority: number): number {
  return times.toSorted((a, b) => b - a)[majority - 1] ?? 0;
}

/** In what time a majority may have room, if these nodes have it in these times and `free` ones have it now. */
export function roomIn(times: readonly number[], free: number, majority: number): number {
  if (free >= majority) return 0;
  return times.toSorted((a, b) => a - b)[majority - free - 1] ?? Infinity;
}
