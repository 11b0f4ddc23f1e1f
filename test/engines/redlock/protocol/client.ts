import { agreedTicket, countReached, majorityOf } from "#lib/backends/redlock/majority.js";
import { Broken, type Client, type Message, type Plan, type State } from "./state.js";

export type Action = (state: State, client: Client, index: number, plan: Plan) => void;

/** What a client can do next. */
export function actionsOf(client: Client, index: number, { now }: State, plan: Plan): Action[] {
  const { phase, trustedUntil, renewals } = client;
  // A client that gives up for good is like one whose messages are lost.
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
      plan.mistake === "the lowest ticket"
        ? Math.min(...tickets)
        : (agreedTicket(tickets, needed(plan)) ?? 0);
    client.votes = [...arrived];
    if (countReached(tickets, client.ticket) >= needed(plan) || plan.mistake === "no second phase") {
      hold(state, client, index, plan);
      return;
    }
    client.phase = "settling";
    for (const [node, ticket] of arrived.entries()) {
      // Also where nothing was heard: it may have voted meanwhile.
      if (ticket < client.ticket) state.messages.push(["settle", index, node, client.attempt, client.ticket]);
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

function assertAlone({ clients, now }: State): void {
  const holders = clients.filter(({ phase, trustedUntil }) => phase === "holding" && now < trustedUntil);
  if (holders.length > 1) throw new Broken(`${holders.length} holders`);
}

function needed({ skews, mistake }: Plan): number {
  return majorityOf(skews.length) - (mistake === "one vote less than a majority" ? 1 : 0);
}

function settled({ votes, ticket, confirmed }: Client, plan: Plan): boolean {
  return countReached(votes, ticket) + count(confirmed) >= needed(plan);
}

/** Whether it has no further attempt. */
export function isLast({ attempt }: Client, index: number, { attempts }: Plan): boolean {
  return attempt === attempts[index];
}

function count(values: readonly (number | boolean)[]): number {
  return values.filter(Boolean).length;
}

function tellAll(state: State, kind: Message[0], client: number, attempt: number, value: number): void {
  for (const [node] of state.nodes.entries()) state.messages.push([kind, client, node, attempt, value]);
}
