import { ETCD_PROGRAM, ETCDCTL_PROGRAM } from "../engines/etcd/server.js";
import { MARIADB_PROGRAM } from "../engines/mysql/server.js";
import { PGBOUNCER_PROGRAM, POSTGRES_PROGRAM } from "../engines/postgres/server.js";
import { REDIS_PROGRAM } from "../engines/redis/server.js";
import { CURATOR_PROGRAMS, ZOOKEEPER_PROGRAMS } from "../engines/zookeeper/server.js";
import { OPENSSL_PROGRAM } from "./certificates.js";
import { COMPILER_PROGRAMS } from "./clock.js";
import { IP_PROGRAM } from "./private-network.js";
import type { NeededProgram } from "./programs.js";

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
