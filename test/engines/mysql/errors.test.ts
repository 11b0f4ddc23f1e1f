import { expect, test } from "vitest";
import { explain, meaningOf } from "#lib/backends/mysql/errors.js";

/** As mysql2 makes them. */
const error = (errno: number) => Object.assign(new Error("of the server"), { errno, sqlState: "HY000" });

test.each([
  [1317, "a statement that was killed"],
  [1568, "a connection in the middle of a transaction"],
  [1969, "a limit in time of MariaDB"],
  [3024, "a limit in time of MySQL"],
  [3169, "a session that was killed"],
  [4031, "a session that was idle for too long"],
])("%i, %s, passes, and that connection is not used again", (errno) => {
  expect(meaningOf(error(errno))).toBe("broken");
  expect(explain(error(errno))).toMatchObject({ isFromServer: true, mayPass: true });
});

test.each([
  [1205, "a lock that was waited for in vain"],
  [1213, "a deadlock"],
  [3101, "a conflict with another member of the group"],
])("%i, %s, was undone as a whole, and is tried again", (errno) => {
  expect(meaningOf(error(errno))).toBe("collision");
  expect(explain(error(errno))).toMatchObject({ isFromServer: true, mayPass: true });
});

test.each([
  [1047, "a node of Galera that has just come back"],
  [1290, "a server with read_only"],
  [1792, "a transaction that is read-only"],
  [1836, "a server in read-only mode"],
  [3032, "a server in offline mode"],
  [3100, "a node of Group Replication without the others"],
])("%i, %s, passes, and another connection may lead to a server that writes", (errno) => {
  expect(meaningOf(error(errno))).toBe("read-only");
  expect(explain(error(errno))).toMatchObject({ isFromServer: true, mayPass: true });
});
