import { shared } from "../servers/shared.js";
import { etcdHarness } from "../support/etcd-harness.js";
import { byUrl, clientPromises } from "./promises.js";

const harness = etcdHarness(await shared("etcd"));

clientPromises(harness, { "by URL": byUrl(harness) });
