import { actionsOf, isLast } from "./client.js";
import { deliver } from "./node.js";
import { type Client, copyOf, type Message, NEVER, type Plan, type State } from "./state.js";

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

function after(state: State, plan: Plan, change: (next: State) => void): State {
  const next = copyOf(state);
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
 * What can change nothing any more, at whatever time it arrives, need not arrive. Nor what a client asks that is
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
      return phase === "settling" && (own?.attempt === attempt || asked());
    case "renew":
      return own !== undefined;
  }
}
