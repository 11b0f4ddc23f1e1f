import { etcdHarness } from "../engines/etcd/harness.js";
import { shared } from "../servers/shared.js";
import { byUrl, clientPromises } from "./promises.js";

const harness = etcdHarness(await shared("etcd"));

clientPromises(harness, { "by URL": byUrl(harness) });
