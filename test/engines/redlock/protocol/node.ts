import type { Client, Message, Node, Plan, State } from "./state.js";

/** A request arrives at its node. */
export function deliver(state: State, [kind, index, at, attempt, value]: Message, plan: Plan): void {
  const node = state.nodes[at] as Node;
  const client = state.clients[index] as Client;
  const claim = node.claim !== undefined && node.claim.until > state.now ? node.claim : undefined;
  const own = claim?.client === index ? claim : undefined;
  const current = client.attempt === attempt;
  switch (kind) {
    case "claim": {
      const young = state.now < node.bornAt + plan.ttl && plan.mistake !== "restarted nodes vote at once";
      // A client that is refused may as well hear nothing: it can give up at any time.
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
      own.ticket = Math.max(own.ticket, value);
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
