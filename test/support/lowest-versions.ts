import { LOWEST_VERSIONS as ETCD } from "#lib/backends/etcd/library.js";
import { LOWEST_VERSIONS as MYSQL } from "#lib/backends/mysql/library.js";
import { LOWEST_VERSIONS as POSTGRES } from "#lib/backends/postgres/library.js";
import { LOWEST_VERSIONS as SQLITE } from "#lib/backends/sqlite/library.js";
import { LOWEST_VERSIONS as REDIS } from "#lib/clients/redis/library.js";

/** Of all client libraries, as the engines say it. */
export const LOWEST_VERSIONS: Readonly<Record<string, string>> = {
  ...ETCD,
  ...MYSQL,
  ...POSTGRES,
  ...REDIS,
  ...SQLITE,
};
