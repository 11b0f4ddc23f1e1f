// A child process that takes locks on command, so that tests can kill it, stop it and let it run again.
// Started by WorkerProcess; talks to its parent over the IPC channel.
import type { Lease } from "../core/lease.js";
import { createLocks, type Locks } from "../locks/locks.js";
import type { LocksOptions } from "../locks/locks-options.js";
import type { BackendFactory } from "./harness.js";
import { disguised } from "./mutex-adapter.js";
import type { WorkerCall, WorkerLook, WorkerReply, WorkerStart } from "./worker-process.js";

const leases = new Map<number, Lease>();
let locks: Locks;
let lastLease = 0;
let once: Promise<unknown> | undefined;
let finishOnce = () => {};

async function start({ module, args, options, as }: WorkerStart): Promise<void> {
  const { default: open } = (await import(module)) as { default: BackendFactory };
  const plain = createLocks(await open(args as never), options satisfies LocksOptions);
  // Permits are drained by the parent, which stays.
  locks = as === undefined ? plain : disguised(plain, as, async () => undefined);
  // As connect() does: loading a library and opening a connection must not take its time from the first lease.
  await locks.inspect("unused");
}

function keep(lease: Lease): { lease: number; token: string } {
  leases.set(++lastLease, lease);
  const key = lastLease;
  // Listening makes the signal abort by itself, so that the parent can ask when it did.
  lease.signal.addEventListener("abort", () => abortedAt.set(key, process.hrtime.bigint()));
  return { lease: key, token: lease.token.toString() };
}

const abortedAt = new Map<number, bigint>();

function find(key: number): Lease {
  const lease = leases.get(key);
  if (lease === undefined) throw new Error(`no lease ${key}`);
  return lease;
}

function look(key: number): WorkerLook {
  const lease = find(key);
  const { aborted, reason } = lease.signal;
  return {
    held: lease.held,
    aborted,
    loss: aborted ? String(reason?.loss) : undefined,
    abortedAtNs: abortedAt.get(key)?.toString(),
  };
}

async function perform(call: WorkerCall): Promise<unknown> {
  switch (call.op) {
    case "start":
      return start(call.start);
    case "acquire":
      return keep(await locks.mutex(call.name, call.mutex).acquire(call.options));
    case "tryAcquire": {
      const lease = await locks.mutex(call.name).tryAcquire();
      return lease === null ? null : keep(lease);
    }
    case "runForEver":
      return new Promise<void>((started) => {
        // Never settles: only the end of the process ends it.
        void locks.mutex(call.name).run((lease) => {
          keep(lease);
          started();
          return new Promise(() => {});
        });
      });
    case "beginOnce":
      return new Promise<void>((started) => {
        const { key, value } = call;
        // Does not settle before it is told to, however long that takes.
        once = locks.once(key, { keep: "1h" }, () => {
          started();
          return new Promise((resolve) => {
            finishOnce = () => resolve(value);
          });
        });
      });
    case "endOnce":
      finishOnce();
      return once;
    case "release":
      return find(call.lease).release();
    case "look":
      return look(call.lease);
    case "block": {
      const until = performance.now() + call.ms;
      while (performance.now() < until);
      return look(call.lease);
    }
    case "leave":
      process.removeAllListeners("disconnect");
      return undefined;
    case "exit":
      process.exit(0);
  }
}

process.on("message", async ({ call, id }: { call: WorkerCall; id: number }) => {
  let reply: WorkerReply;
  try {
    reply = { id, value: await perform(call) };
  } catch (error) {
    const { message, code } = error as Error & { code?: string };
    reply = { id, error: message, code };
  }
  process.send?.(reply);
});
process.on("disconnect", () => process.exit(0));
