import type { PgClient } from "./library.js";

export const NEEDS_PG =
  "channel_binding=require in the URL needs the package pg, version 8.14 or later: npm install pg. Without it, leave channel_binding out: sslmode=require checks the server's certificate.";

const MECHANISM = "SCRAM-SHA-256-PLUS";

/**
 * The library uses channel binding where the server offers it, and goes on without it elsewhere. Here a server that
 * does not offer it is left before it has seen an answer, and one that does not go through with it before it has
 * seen a request: it may be an attacker on the network.
 */
export function requireChannelBinding(client: PgClient): void {
  const { connection } = client;
  let isBound = false;
  const leave = (why: string) => {
    // At once: what else has come from the server is read in the same turn.
    connection?.emit("error", new Error(`channel binding: ${why}`));
    connection?.stream.destroy();
  };
  // These are the first listeners, so they run before those of the library.
  connection?.on("authenticationSASL", ({ mechanisms }) => {
    if (client.enableChannelBinding !== true) leave("pg 8.14 or later is needed");
    else if (!mechanisms?.includes(MECHANISM)) leave("the server does not offer it");
  });
  connection?.on("authenticationSASLFinal", () => {
    isBound = true;
  });
  connection?.on("authenticationOk", () => {
    if (!isBound) leave("the server lets us in without it");
  });
  for (const other of ["authenticationCleartextPassword", "authenticationMD5Password"] as const) {
    connection?.on(other, () => leave("the server asks for the password itself"));
  }
}
