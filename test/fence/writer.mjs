// A process that holds a lock and writes to what it protects, on command, so that a test can stop it in between.
import { once } from "node:events";
import { compiled } from "../support/compiled.mjs";
import { open } from "./resources.mjs";

const [locksUrl, ttl, name, kind, url] = process.argv.slice(2);
const { connect } = await compiled("index.js");
const locks = await connect(locksUrl, { ttl });
const resource = await open(kind, url);
const lease = await locks.mutex(name).acquire();

/** Says where it is, and goes on when it is told to. */
async function pauseOnce() {
  process.send({ at: "the gap" });
  await once(process, "message");
}

process.on("message", async (message) => {
  if (message.write === undefined) return;
  const { write: line, as, pause } = message;
  let atGap = pause ? pauseOnce : async () => {};
  const between = async () => {
    const stop = atGap;
    atGap = async () => {};
    await stop();
  };
  // As it would arrive in another process, which does not know how the lease is doing.
  const shown = as === "lease" ? lease : { name: lease.name, token: `${lease.token}` };
  const done = await resource.write(shown, line, between).then(
    () => ({ code: "written" }),
    ({ code, message, loss, highest }) => ({ code, message, loss, highest: highest && `${highest}` }),
  );
  process.send({ done });
});
process.on("disconnect", () => process.exit(0));
process.send({ token: `${lease.token}` });
