import { createServer } from "node:net";

/*
 * Below 32768, where Linux begins to hand out local ports to outgoing connections. A port from up there is
 * free now and may be some client's own port by the time a killed server wants it back.
 */
const LOWEST = 15_000;
const HIGHEST = 31_999;
const ATTEMPTS = 200;

/**
 * The worker processes of a run look for ports at the same time. Each has a part of them for itself, or two servers of
 * different workers would now and then be given the same one: it is taken only when the server listens.
 */
const PARTS = 8;
const PART = Number(process.env.VITEST_POOL_ID ?? 0) % PARTS;

/** Two servers that start at the same time must not be given one port, though neither listens yet. */
const given = new Set<number>();

/** A TCP port of 127.0.0.1 on which nothing listens and which this process has not given out before. */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    // By chance and not in turn, because several runs of tests may look for ports at once.
    const port = LOWEST + PARTS * Math.floor((Math.random() * (HIGHEST - LOWEST + 1)) / PARTS) + PART;
    if (given.has(port)) continue;
    given.add(port);
    if (await isFree(port)) return port;
  }
  throw new Error(`no free port between ${LOWEST} and ${HIGHEST} was found in ${ATTEMPTS} attempts`);
}

export async function freePorts(count: number): Promise<number[]> {
  return await Promise.all(Array.from({ length: count }, () => freePort()));
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once("error", () => resolve(false));
    probe.listen({ port, host: "127.0.0.1", exclusive: true }, () => probe.close(() => resolve(true)));
  });
}
