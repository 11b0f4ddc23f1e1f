import { shared } from "../../servers/shared.js";

export interface Database {
  readonly url: string;
  readonly host: string;
  readonly port: number;
}

/** A database server that all tests share, under a prefix of their own. */
export async function database(name: "postgres" | "mariadb"): Promise<Database> {
  const { url } = await shared(name);
  const { hostname, port } = new URL(url);
  return { url, host: hostname, port: Number(port) };
}
