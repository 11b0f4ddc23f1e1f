import { OPENSSL_PROGRAM } from "./certificates.js";
import { COMPILER_PROGRAMS } from "./clock.js";
import { ETCD_PROGRAM, ETCDCTL_PROGRAM } from "./etcd.js";
import { MARIADB_PROGRAM } from "./mariadb.js";
import { PGBOUNCER_PROGRAM, POSTGRES_PROGRAM } from "./postgres.js";
import { IP_PROGRAM } from "./private-network.js";
import type { NeededProgram } from "./programs.js";
import { REDIS_PROGRAM } from "./redis.js";
import { CURATOR_PROGRAMS, ZOOKEEPER_PROGRAMS } from "./zookeeper.js";

/** What the tests need of this machine, also where another version of a server is tested. */
export const TEST_PROGRAMS: readonly NeededProgram[] = [
  REDIS_PROGRAM,
  ETCD_PROGRAM,
  ETCDCTL_PROGRAM,
  OPENSSL_PROGRAM,
  IP_PROGRAM,
  ...COMPILER_PROGRAMS,
  POSTGRES_PROGRAM,
  PGBOUNCER_PROGRAM,
  MARIADB_PROGRAM,
  ...ZOOKEEPER_PROGRAMS,
  ...CURATOR_PROGRAMS,
];
