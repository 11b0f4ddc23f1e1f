// The protocol of a quorum as a machine of small states, for an exhaustive search: what clients and nodes do,
// in every order, with messages that arrive late or never. What a majority amounts to is the engine's own code.
//
// Requests are messages on their way. Replies are not: what nodes have said lies there, and a client that decides
// something takes any part of it for what has arrived. That is the same, and far fewer states.

/** Times are whole numbers; one claim of one id per client, in attempts. */
export interface Plan {
  /** For each client, how many attempts it has. */
  readonly attempts: readonly number[];
  /** By how much the clock of each node is ahead. */
  readonly skews: readonly number[];
  readonly ttl: number;
  readonly until: number;
  readonly renewals: number;
  /** How many times a node loses all that it knows. */
  readonly restarts: number;
  /** Without tickets, which are looked at elsewhere, there are far fewer states. */
  readonly tickets: boolean;
  readonly mistake?: Mistake;
}

/** Each makes the protocol wrong in one place. */
export type Mistake =
  | "no second phase"
  | "restarted nodes vote at once"
  | "one vote less than a majority"
  | "trusted from the answer"
  | "the lowest ticket"
  | "a late release takes a later attempt";

export interface Node {
  last: number;
  bornAt: number;
  claim: { client: number; attempt: number; ticket: number; until: number } | undefined;
}

export interface Client {
  phase: "idle" | "asking" | "settling" | "holding" | "done";
  attempt: number;
  sentAt: number;
  trustedUntil: number;
  ticket: number;
  /** By node: the ticket that it drew for this attempt, or 0. */
  votes: number[];
  /** By node: what it said to the second phase or, while holding, to the renewal. */
  confirmed: boolean[];
  renewals: number;
}

/** Kind, client, node, attempt, and a ticket or the time of sending. */
export type Message = readonly [
  kind: "claim" | "settle" | "renew" | "release",
  client: number,
  node: number,
  attempt: number,
  value: number,
];

export interface State {
  now: number;
  restarts: number;
  greatest: number;
  nodes: Node[];
  clients: Client[];
  messages: Message[];
}

/** So long ago that it votes. */
export const NEVER = -100;

/** A promise that was not kept. */
export class Broken extends Error {}

export function initial({ attempts, skews }: Plan): State {
  const nodes = skews.map((): Node => ({ last: 0, bornAt: NEVER, claim: undefined }));
  const idle = (): Client => ({
    phase: "idle",
    attempt: 0,
    sentAt: 0,
    trustedUntil: 0,
    ticket: 0,
    votes: skews.map(() => 0),
    confirmed: skews.map(() => false),
    renewals: 0,
  });
  return {
    now: 0,
    restarts: 0,
    greatest: 0,
    nodes,
    clients: attempts.map(idle),
    messages: [],
  };
}

const PHASES = ["idle", "asking", "settling", "holding", "done"];
const KINDS = ["claim", "settle", "renew", "release"];

/** Two states with the same text have the same future. All numbers are small, so each is a character. */
export function textOf({ now, restarts, greatest, nodes, clients, messages }: State): string {
  const codes = [now, restarts, greatest];
  for (const { last, bornAt, claim } of nodes) {
    codes.push(last, bornAt - NEVER);
    if (claim !== undefined && claim.until > now)
      codes.push(claim.client + 1, claim.attempt, claim.ticket, claim.until);
    else codes.push(0);
  }
  for (const c of clients) {
    codes.push(
      PHASES.indexOf(c.phase),
      c.attempt,
      c.sentAt,
      c.trustedUntil,
      c.ticket,
      c.renewals,
      ...c.votes,
    );
    for (const said of c.confirmed) codes.push(said ? 1 : 0);
  }
  const underWay = messages.map(
    ([kind, client, node, attempt, value]) =>
      (((KINDS.indexOf(kind) * 4 + client) * 4 + node) * 4 + attempt) * 32 + value,
  );
  return String.fromCharCode(...codes, ...underWay.sort((a, b) => a - b));
}

/** Another one, that can be changed. */
export function copyOf(state: State): State {
  return {
    ...state,
    nodes: state.nodes.map((node) => ({ ...node, claim: node.claim && { ...node.claim } })),
    clients: state.clients.map((client) => ({
      ...client,
      votes: [...client.votes],
      confirmed: [...client.confirmed],
    })),
    messages: [...state.messages],
  };
}
