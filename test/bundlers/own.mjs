// A program with a client of its own. test/bundlers builds it with each bundler.
import { Redis } from "ioredis";
import { createLocks } from "locktender/core";
import { redis } from "locktender/redis";
import { turn } from "./turn.mjs";

export async function main(url) {
  const client = new Redis(url);
  try {
    return await turn(createLocks(redis({ client, prefix: "bundlers" })));
  } finally {
    client.disconnect();
  }
}
