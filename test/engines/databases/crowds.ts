import { expect, test } from "vitest";
import type { Answer, Backend, ClaimRequest } from "#lib/core/backend.js";
import { newPrefix, request, type TestedDatabase, toolsFor } from "./tested-database.js";

/** Many at once, and many names. */
export function crowdPromises(database: TestedDatabase): void {
  const { url, ask, sql } = database;
  const { backend } = toolsFor(database);

  test("scenario S15: 64 clients at names that are not there yet get no error, and each name one holder", async () => {
    const prefix = newPrefix();
    const clients = Array.from({ length: 64 }, () => backend({ prefix, connections: 1, timeout: "20s" }));
    await clients[0]?.claim(request("warm"));
    for (let round = 0; round < 8; round++) {
      // First all at one name, then at four.
      const names = round < 4 ? 1 : 4;
      const answers = await Promise.all(
        clients.map((one, index) => one.claim(request(`new-${round}-${index % names}`))),
      );
      expect(answers.filter(({ state }) => state === "granted")).toHaveLength(names);
      expect(answers.filter(({ state }) => state === "waiting")).toHaveLength(64 - names);
    }
  });

  test("scenario S15: 64 clients that claim, renew, release, force and sweep at the same missing names get no error", async () => {
    const prefix = newPrefix();
    const clients = Array.from({ length: 64 }, () =>
      backend({ prefix, connections: 1, timeout: "20s", retention: "1s" }),
    );
    await clients[0]?.claim(request("warm"));
    // Each name is busy for a moment, and then idle for long enough to be forgotten: it is missing again and again.
    const nameOf = (n: number) => `n-${Math.floor(performance.now() / 100) % 24}-${n % 3}`;
    const until = performance.now() + 5_000;
    let cycles = 0;
    let forced = 0;
    // Some run out on the way.
    const once = async (one: Backend, index: number, round: number) => {
      const mine = [0, 1, 2].map((n) => request(nameOf(index + n), { ttlMs: n === 0 ? 40 : 400 }));
      const answers = await Promise.all(mine.map((each) => one.claim(each)));
      await one.renew(mine.flatMap((claim, at) => renewalOf(claim, answers[at])));
      for (const claim of mine) {
        if (round % 3 === 0 && (await one.release(claim, { reason: "in the way" }))) forced++;
        await one.release(claim, round % 3 === 1 ? "unused" : undefined);
      }
      cycles++;
    };
    await Promise.all(
      clients.map(async (one, index) => {
        for (let round = index; performance.now() < until; round++) await once(one, index, round);
      }),
    );
    expect(cycles).toBeGreaterThan(64);
    expect(forced).toBeGreaterThan(0);
  });

  test("scenario S16: a million names cost nothing after their retention, by ordinary work alone", async () => {
    const prefix = newPrefix();
    const one = backend({ prefix, retention: "1h", timeout: "30s" });
    await one.claim(request("held", { ttlMs: 300_000 }));
    await ask(url, sql.fill(prefix, 1_000_000));
    const young = await one.claim(request("young", { ttlMs: 300_000 }));
    await one.claim(request("crashed", { ttlMs: 20 }));
    const left = async () => {
      const [names] = await ask(url, `SELECT count(*) AS n FROM ${sql.table(prefix, "resources")}`);
      const claims = await ask(url, `SELECT name FROM ${sql.table(prefix, "claims")} ORDER BY name`);
      return [Number(names?.n), ...claims.map(({ name }) => String(name))];
    };
    // Held, young, crashed and work: none of them has been idle for long enough.
    const tidy = [4, "held", "young"];
    const isTidy = async () => String(await left()) === String(tidy);
    for (let claims = 0; claims < 20_000 && (claims % 100 !== 0 || !(await isTidy())); claims++) {
      const passing = request("work");
      await one.claim(passing);
      await one.release(passing);
    }
    expect(await left()).toEqual(tidy);
    expect(young.state).toBe("granted");
  });
}

function renewalOf(claim: ClaimRequest, answer: Answer | undefined) {
  return answer !== undefined && "ticket" in answer ? [{ ...claim, ticket: answer.ticket }] : [];
}
