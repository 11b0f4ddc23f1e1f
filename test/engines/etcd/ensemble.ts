import { createLocks, type Locks, type LocksOptions } from "locktender";
import { etcd } from "locktender/etcd";
import { expect, onTestFinished } from "vitest";
import { etcdctl } from "./harness.js";
import type { Etcd, EtcdNode } from "./server.js";

/** Locks by way of these members only, closed with the test. */
export function openAt(
  nodes: readonly { readonly host: string; readonly port: number }[],
  options: LocksOptions = {},
): Locks {
  const url = `etcd://${nodes.map(({ host, port }) => `${host}:${port}`).join(",")}`;
  const locks = createLocks(etcd({ url, timeout: "1s" }), options);
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

interface MemberStatus {
  readonly Endpoint: string;
  readonly Status: { readonly header: { readonly member_id: number }; readonly leader: number };
}

/** Waits until all members agree on their leader. */
export async function roles(ensemble: Etcd): Promise<{ leader: EtcdNode; followers: EtcdNode[] }> {
  let leader: EtcdNode | undefined;
  const agreed = async () => {
    const text = await etcdctl(ensemble.nodes, "endpoint", "status", "-w", "json");
    // The ids are too long for a number of JavaScript; they are only compared.
    const members = JSON.parse(text.replace(/:(\d{16,})/g, ':"$1"')) as MemberStatus[];
    const leads = ({ Status }: MemberStatus) => Status.leader === Status.header.member_id;
    const head = members.find(leads);
    leader = ensemble.nodes.find(({ host, port }) => head?.Endpoint === `${host}:${port}`);
    const ids = new Set(members.map(({ Status }) => Status.leader));
    return leader !== undefined && members.length === ensemble.nodes.length && ids.size === 1;
  };
  await expect.poll(() => agreed().catch(() => false), { timeout: 20_000, interval: 100 }).toBe(true);
  const head = leader as unknown as EtcdNode;
  return { leader: head, followers: ensemble.nodes.filter((node) => node !== head) };
}

/**
 * A holder is cut off, and another process comes in: when was the one told, and when was the other let in? The
 * clocks of both are one.
 */
export async function succession(
  name: string,
  holder: Locks,
  successor: Locks,
  cutOff: () => Promise<unknown> | unknown,
): Promise<{ toldMs: number; enteredMs: number; tokens: [bigint, bigint]; loss: string }> {
  const lease = await holder.mutex(name).acquire();
  const told = new Promise<number>((resolve) => {
    lease.signal.addEventListener("abort", () => resolve(performance.now()));
  });
  await cutOff();
  const next = await successor.mutex(name).acquire({ wait: "40s" });
  const enteredMs = performance.now();
  const toldMs = await told;
  const { loss } = lease.signal.reason as { loss: string };
  await next.release();
  return { toldMs, enteredMs, tokens: [lease.token, next.token], loss };
}
