// Servers that draw tickets, one of them the primary, as a machine of small states, for an exhaustive search:
// replication that loses the last writes, failovers, clocks that differ, messages that arrive late or never.
// How a process estimates the server's clock is the engines' own code.

/** Times are in seconds, and whole. */
export interface Plan {
  /** For each process, the names that it claims, one after the other. */
  readonly claims: readonly (readonly string[])[];
  /** How far the clock of each server is ahead. The first one is the primary, and each is replaced by the next. */
  readonly ahead: readonly number[];
  readonly until: number;
  /** How long a failover takes at least. */
  readonly gap: number;
  /** An old primary serves on beside the new one. */
  readonly oldServesOn?: boolean;
  /** Requests and answers are under way for as long as they like, and may get lost; else for no time. */
  readonly delays?: boolean;
  /** For how long the machine of each process may sleep, all in all. */
  readonly sleep?: number;
  /** The first server's clock jumps ahead by this much, once, and later back. */
  readonly jump?: number;
}

/** `sleptFor`: by how much its own clock is behind, because it stands still while the machine sleeps. */
export interface Process {
  /** How many of its claims it has sent. */
  sent: number;
  sleptFor: number;
  request: { readonly name: string; readonly floor: number; readonly sentAt: number } | undefined;
  answer: Drawn | undefined;
  /** Its answers, and when they came by its own clock. */
  seen: readonly (readonly [drawn: Drawn, seenAt: number])[];
}

/** A ticket, and the time at which it was drawn. */
export type Drawn = readonly [ticket: number, drawnAt: number];

export interface State {
  now: number;
  /** Which servers serve, and since when there is none. */
  serving: number[];
  downAt: number;
  /** The newest server that was ever primary. */
  newest: number;
  jumped: "not yet" | "now" | "over";
  /** By server: the last ticket of each name. */
  last: Record<string, number>[];
  processes: Process[];
  /** By name: the greatest ticket of all. */
  greatest: Record<string, Drawn>;
}

/** So that times are tickets of this century. */
const START_S = 1_800_000_000;

export function initial({ claims, ahead }: Plan): State {
  return {
    now: 0,
    serving: [0],
    downAt: 0,
    newest: 0,
    jumped: "not yet",
    last: ahead.map(() => ({})),
    processes: claims.map(() => ({ sent: 0, sleptFor: 0, request: undefined, answer: undefined, seen: [] })),
    greatest: {},
  };
}

/** What the server's clock shows, in µs. */
export function clockUs(state: State, server: number, plan: Plan): number {
  const jump = server === 0 && state.jumped === "now" ? (plan.jump ?? 0) : 0;
  return (START_S + state.now + (plan.ahead[server] ?? 0) + jump) * 1_000_000;
}

/** How far a clock that shows the ticket at that time is ahead, in seconds. */
export function aheadOf([ticket, drawnAt]: Drawn): number {
  return ticket / 1_000_000 - START_S - drawnAt;
}

export function copyOf(state: State): State {
  return {
    ...state,
    serving: [...state.serving],
    last: state.last.map((names) => ({ ...names })),
    processes: state.processes.map((process) => ({ ...process })),
    greatest: { ...state.greatest },
  };
}
