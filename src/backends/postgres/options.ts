import { invalidOption } from "../../core/errors.js";
import {
  readServerOptions,
  type ServerKind,
  type ServerOptions,
  type ServerSettings,
} from "../sql/address.js";
import type { PgPoolLike } from "./client.js";

export interface PostgresOptions extends ServerOptions {
  /** `postgres://user:password@host:5432/database`, with `?sslmode=require` for TLS. */
  readonly url?: string;
  /** A pool of `pg` instead; it stays yours to close. */
  readonly pool?: PgPoolLike;
  /** The schema in the database that holds the tables; `"locktender"` if not given. */
  readonly prefix?: string;
  /** `false`: no connection is kept for LISTEN, and waiters poll. */
  readonly listen?: boolean;
}

export interface PostgresSettings extends ServerSettings<PgPoolLike> {
  readonly listen: boolean;
}

const KIND: ServerKind = {
  engine: "postgres",
  library: "pg",
  connect: "connect",
  ports: new Map([
    ["postgres", 5432],
    ["postgresql", 5432],
  ]),
  own: ["listen"],
};

export function readPostgresOptions(options: PostgresOptions): PostgresSettings {
  const settings = readServerOptions(KIND, options);
  const { listen = true } = options;
  if (typeof listen !== "boolean") throw invalidOption("listen: must be true or false.");
  // The only connection of a pool cannot be kept for listening.
  return { ...settings, listen: listen && settings.target.pool?.options?.max !== 1 };
}
