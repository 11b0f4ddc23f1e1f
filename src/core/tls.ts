import { createSecureContext } from "node:tls";
import { invalidOption } from "./errors.js";
import { knownOptions } from "./options.js";
import { plainText } from "./plain-text.js";

/** PEM texts: who signed the servers, and who we are. */
export interface TlsOptions {
  readonly ca?: string | Buffer;
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
}

export interface TlsTexts {
  readonly ca?: Buffer;
  readonly cert?: Buffer;
  readonly key?: Buffer;
}

export function readTls(tls: TlsOptions): TlsTexts {
  knownOptions(tls, new Set(["ca", "cert", "key"]), "tls");
  const texts: { ca?: Buffer; cert?: Buffer; key?: Buffer } = {};
  for (const name of ["ca", "cert", "key"] as const) {
    const text = tls[name];
    if (text === undefined) continue;
    if (typeof text !== "string" && !Buffer.isBuffer(text)) {
      throw invalidOption(`tls.${name}: give the PEM text.`);
    }
    texts[name] = Buffer.from(text);
  }
  if ((texts.cert === undefined) !== (texts.key === undefined)) {
    throw invalidOption("tls: cert and key go together.");
  }
  try {
    // Else it would fail at each attempt to connect, and look like an outage.
    createSecureContext(texts);
  } catch (error) {
    throw invalidOption(`tls: these texts cannot be used: ${plainText((error as Error).message)}.`);
  }
  return texts;
}
