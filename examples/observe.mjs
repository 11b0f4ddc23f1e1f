// What happened, in the order in which it happened in this process: by `onEvent`, or, from anywhere in the
// program and without touching the code that locks, by node:diagnostics_channel.
import { subscribe, tracingChannel } from "node:diagnostics_channel";
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "locktender";

// A metric per group (the first part of the name), because there are few groups and many names.
const waits = new Map();
tracingChannel("locktender:acquire").subscribe({
  start(trace) {
    trace.sinceMs = performance.now();
  },
  asyncEnd({ group, sinceMs }) {
    waits.set(group, [...(waits.get(group) ?? []), Math.round(performance.now() - sinceMs)]);
  },
});

// A loss is worth a look by a person.
subscribe("locktender:lost", ({ name, loss, by, reason }) => {
  console.log(`LOST ${name}: ${loss} by ${by}, who says "${reason}"`);
});

const locks = await connect("memory:", {
  onEvent: ({ type, name }) => console.log(`${type} ${name ?? ""}`),
});
const orders = locks.mutex("orders:42");

await Promise.all([orders.run(() => sleep(50)), orders.run(() => sleep(50))]);
await orders.acquire();
await locks.forceRelease("orders:42", { reason: "the example ends", by: "ann" });
await sleep(10);
await locks.close();

for (const [group, ms] of waits) console.log(`${group} waited ${ms.length} times`);
