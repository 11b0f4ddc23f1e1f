import { majorityOf, reached, ticketOf } from "#lib/backends/quorum/tally.js";

// The protocol of a quorum as a machine of small states, for an exhaustive search: what clients and nodes do,
// in every order, with messages that arrive late or never. What a majority amounts to is the engine's own code.
//
// Requests are messages on their way. Replies are not: what nodes have said lies there, and whoever decides
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

interface Node {
  last: number;
  bornAt: number;
  claim: { client: number; attempt: number; ticket: number; until: number } | undefined;
}

interface Client {
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
type Message = readonly [
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
const NEVER = -100;

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

/** All states that can follow. Throws `Broken` where a promise is. */
export function* successors(state: State, plan: Plan): Generator<State> {
  if (state.now < plan.until) yield after(state, plan, (next) => next.now++);
  for (const [index] of state.messages.entries()) {
    yield after(state, plan, (next) => {
      const [message] = next.messages.splice(index, 1);
      if (message !== undefined) deliver(next, message, plan);
    });
  }
  if (state.restarts < plan.restarts) {
    for (const [index] of state.nodes.entries()) {
      yield after(state, plan, (next) => {
        next.restarts++;
        next.nodes[index] = { last: 0, bornAt: next.now, claim: undefined };
      });
    }
  }
  for (const [index, client] of state.clients.entries()) {
    for (const act of actionsOf(client, index, state, plan)) {
      yield after(state, plan, (next) => act(next, next.clients[index] as Client, index, plan));
    }
  }
}

type Action = (state: State, client: Client, index: number, plan: Plan) => void;

function actionsOf(client: Client, index: number, { now }: State, plan: Plan): Action[] {
  const { phase, trustedUntil, renewals } = client;
  // Who gives up for good is like one whose messages are lost.
  const again = isLast(client, index, plan) ? [] : [giveUp];
  switch (phase) {
    case "idle":
      return isLast(client, index, plan) ? [] : [ask];
    case "asking":
      return [...majorities(client.votes, plan).map(handOut), ...again];
    case "settling":
      return settled(client, plan) ? [hold, ...again] : again;
    case "holding": {
      if (now >= trustedUntil) return [];
      const extended = count(client.confirmed) >= needed(plan);
      return [...(extended ? [extend] : []), ...(renewals < plan.renewals ? [renew] : []), leave];
    }
    default:
      return [];
  }
}

const ask: Action = (state, client, index) => {
  client.phase = "asking";
  client.attempt++;
  client.sentAt = state.now;
  client.votes.fill(0);
  client.confirmed.fill(false);
  tellAll(state, "claim", index, client.attempt, 0);
};

/** All parts of the votes that are a majority. */
function majorities(votes: readonly number[], plan: Plan): (readonly number[])[] {
  let parts: number[][] = [[]];
  for (const ticket of votes) {
    const without = parts.map((part) => [...part, 0]);
    parts = ticket === 0 ? without : [...without, ...parts.map((part) => [...part, ticket])];
  }
  return parts.filter((part) => count(part) >= needed(plan));
}

const handOut =
  (arrived: readonly number[]): Action =>
  (state, client, index, plan) => {
    const tickets = arrived.filter((ticket) => ticket > 0);
    client.ticket =
      plan.mistake === "the lowest ticket" ? Math.min(...tickets) : (ticketOf(tickets, needed(plan)) ?? 0);
    client.votes = [...arrived];
    if (reached(tickets, client.ticket) >= needed(plan) || plan.mistake === "no second phase") {
      hold(state, client, index, plan);
      return;
    }
    client.phase = "settling";
    for (const [node, ticket] of arrived.entries()) {
      if (ticket > 0 && ticket < client.ticket)
        state.messages.push(["settle", index, node, client.attempt, client.ticket]);
    }
  };

const hold: Action = (state, client, index, plan) => {
  client.trustedUntil = (plan.mistake === "trusted from the answer" ? state.now : client.sentAt) + plan.ttl;
  // What comes too late is no lease: it is given up like any other.
  if (state.now >= client.trustedUntil) return giveUp(state, client, index, plan);
  if (plan.tickets && client.ticket <= state.greatest)
    throw new Broken(`token ${client.ticket} after ${state.greatest}`);
  state.greatest = client.ticket;
  client.phase = "holding";
  if (plan.renewals === 0) client.sentAt = 0;
  client.votes.fill(0);
  client.confirmed.fill(false);
  assertAlone(state);
};

const giveUp: Action = (state, client, index) => {
  tellAll(state, "release", index, client.attempt, 0);
  client.phase = "idle";
};

const renew: Action = (state, client, index) => {
  client.renewals++;
  client.sentAt = state.now;
  client.confirmed.fill(false);
  tellAll(state, "renew", index, client.attempt, state.now);
};

const extend: Action = (state, client, _, plan) => {
  client.trustedUntil = (plan.mistake === "trusted from the answer" ? state.now : client.sentAt) + plan.ttl;
  client.confirmed.fill(false);
  assertAlone(state);
};

const leave: Action = (state, client, index) => {
  tellAll(state, "release", index, client.attempt, 0);
  client.phase = "done";
};

function deliver(state: State, [kind, index, at, attempt, value]: Message, plan: Plan): void {
  const node = state.nodes[at] as Node;
  const client = state.clients[index] as Client;
  const claim = node.claim !== undefined && node.claim.until > state.now ? node.claim : undefined;
  const own = claim?.client === index ? claim : undefined;
  const current = client.attempt === attempt;
  switch (kind) {
    case "claim": {
      const young = state.now < node.bornAt + plan.ttl && plan.mistake !== "restarted nodes vote at once";
      // Who is refused may as well hear nothing: it can give up at any time.
      if (own === undefined ? claim !== undefined || young : attempt < own.attempt) return;
      const drawn = Math.max(node.last + 1, state.now + (plan.skews[at] ?? 0));
      const ticket = plan.tickets ? (own?.ticket ?? drawn) : 1;
      node.claim = { client: index, attempt, ticket, until: state.now + plan.ttl };
      node.last = Math.max(node.last, ticket);
      if (current && client.phase === "asking") client.votes[at] = ticket;
      return;
    }
    case "settle":
      if (own?.attempt !== attempt) return;
      own.ticket = value;
      node.last = Math.max(node.last, value);
      if (current && client.phase === "settling") client.confirmed[at] = true;
      return;
    case "renew":
      if (own === undefined) return;
      own.until = state.now + plan.ttl;
      if (client.phase === "holding" && client.sentAt === value) client.confirmed[at] = true;
      return;
    case "release":
      if (own === undefined) return;
      if (own.attempt <= attempt || plan.mistake === "a late release takes a later attempt")
        node.claim = undefined;
  }
}

function assertAlone({ clients, now }: State): void {
  const holders = clients.filter(({ phase, trustedUntil }) => phase === "holding" && now < trustedUntil);
  if (holders.length > 1) throw new Broken(`${holders.length} holders`);
}

function needed({ skews, mistake }: Plan): number {
  return majorityOf(skews.length) - (mistake === "one vote less than a majority" ? 1 : 0);
}

function settled({ votes, ticket, confirmed }: Client, plan: Plan): boolean {
  return reached(votes, ticket) + count(confirmed) >= needed(plan);
}

function isLast({ attempt }: Client, index: number, { attempts }: Plan): boolean {
  return attempt === attempts[index];
}

function count(values: readonly (number | boolean)[]): number {
  return values.filter(Boolean).length;
}

function tellAll(state: State, kind: Message[0], client: number, attempt: number, value: number): void {
  for (const [node] of state.nodes.entries()) state.messages.push([kind, client, node, attempt, value]);
}

function after(state: State, plan: Plan, change: (next: State) => void): State {
  const next: State = {
    ...state,
    nodes: state.nodes.map((node) => ({ ...node, claim: node.claim && { ...node.claim } })),
    clients: state.clients.map((client) => ({
      ...client,
      votes: [...client.votes],
      confirmed: [...client.confirmed],
    })),
    messages: [...state.messages],
  };
  change(next);
  forgetThePast(next, plan);
  next.messages = next.messages.filter((message) => matters(next, message));
  return next;
}

/** What is over makes no difference between two states. */
function forgetThePast({ nodes, clients, now }: State, plan: Plan): void {
  for (const node of nodes) {
    if (node.claim !== undefined && node.claim.until <= now) node.claim = undefined;
    if (now >= node.bornAt + plan.ttl) node.bornAt = NEVER;
  }
  for (const [index, client] of clients.entries()) {
    const { phase, sentAt } = client;
    const tooLate = now >= sentAt + plan.ttl && plan.mistake !== "trusted from the answer";
    const asking = phase === "asking" || phase === "settling";
    if (phase === "holding" ? now >= client.trustedUntil : asking && tooLate && isLast(client, index, plan))
      client.phase = "done";
    if (client.phase !== "done" && client.phase !== "idle") continue;
    client.sentAt = client.trustedUntil = client.ticket = client.renewals = 0;
    client.votes.fill(0);
    client.confirmed.fill(false);
  }
}

/**
 * What can change nothing any more, at whatever time it arrives, need not arrive. Nor what somebody asks who is
 * done: that would be in the others' way, as if their own messages to that node were lost.
 */
function matters({ nodes, clients, messages, now }: State, [kind, index, at, attempt]: Message): boolean {
  const claim = nodes[at]?.claim;
  const phase = clients[index]?.phase;
  const own = claim !== undefined && claim.until > now && claim.client === index ? claim : undefined;
  const asked = () => messages.some((one) => one[0] === "claim" && one[1] === index && one[2] === at);
  switch (kind) {
    case "claim":
      return phase !== "done";
    case "release":
      return own !== undefined || (phase !== "done" && asked());
    case "settle":
      return own?.attempt === attempt && phase === "settling";
    case "renew":
      return own !== undefined;
  }
}
