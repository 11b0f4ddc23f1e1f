import assert from "node:assert/strict";
import type { WebLockInfo, WebLockMode } from "../../locks/web-locks.js";
import { type Bench, type Case, eventually } from "./bench.js";

/** Which order shows by chance shows in none of so many rounds. */
const ROUNDS = 3;

/** A promise, and what fulfils it. */
function gate(): { opened: Promise<void>; open: () => void } {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

const isAbort = (error: unknown) => error instanceof DOMException && error.name === "AbortError";

async function rounds(bench: Bench, round: (name: string) => Promise<void>): Promise<void> {
  for (let done = 0; done < ROUNDS; done++) await round(bench.name());
}

/** The modes of those that hold a name, and of those that wait for it. */
async function modes(
  web: { query(): Promise<{ held: WebLockInfo[]; pending: WebLockInfo[] }> },
  name: string,
): Promise<{ held: WebLockMode[]; pending: WebLockMode[] }> {
  const { held, pending } = await web.query();
  const of = (infos: readonly WebLockInfo[]) =>
    infos.filter((info) => info.name === name).map(({ mode }) => mode);
  return { held: of(held), pending: of(pending) };
}

export const webOrder: readonly Case[] = [
  {
    name: "of requests that steal, the last caller wins, and the others fail",
    needs: ["queue"],
    async run(bench) {
      const { web } = bench.connect();
      await rounds(bench, async (name) => {
        const end = gate();
        const victims = [
          web.request(name, () => end.opened),
          web.request(name, { steal: true }, () => end.opened),
        ];
        const failures = victims.map((victim) => assert.rejects(victim, isAbort));
        const last = web.request(name, { steal: true }, async () => {
          await Promise.all(failures);
          return modes(web, name);
        });
        assert.deepEqual(await last, { held: ["exclusive"], pending: [] });
        end.open();
      });
    },
  },
  {
    name: "of programs that steal at the same time one wins, and the others fail",
    needs: ["queue"],
    async run(bench) {
      const name = bench.name();
      const programs = await Promise.all([1, 2, 3, 4].map(() => bench.opened()));
      const [holder, ...thieves] = programs.map(({ web }) => web);
      const end = gate();
      const holding = gate();
      const victim = holder?.request(name, () => {
        holding.open();
        return end.opened;
      });
      await holding.opened;
      let failed = 0;
      const requests = thieves.map((web) =>
        web
          .request(name, { steal: true }, () => end.opened.then(() => "kept"))
          .catch((error: unknown) => {
            assert(isAbort(error), String(error));
            failed++;
            return "lost";
          }),
      );
      await assert.rejects(Promise.resolve(victim), isAbort);
      await eventually("all but one of those that steal have lost", 10_000, () => failed === 2);
      end.open();
      assert.deepEqual((await Promise.all(requests)).sort(), ["kept", "lost", "lost"]);
    },
  },
  {
    name: "callbacks are called in the order of their requests, also across names",
    needs: ["queue"],
    async run(bench) {
      const { web } = bench.connect();
      await rounds(bench, async (name) => {
        const called: string[] = [];
        const end = gate();
        const request = (which: string, mode: WebLockMode) =>
          web.request(`${name}:${which}`, { mode }, async () => {
            called.push(which);
            await end.opened;
          });
        const shared = ["a", "b", "c", "a", "b", "c"].map((which) => request(which, "shared"));
        const blocked = request("a", "exclusive");
        await web.request(`${name}:d`, () => void called.push("d"));
        await web.request(`${name}:a`, { ifAvailable: true }, (lock) => assert.equal(lock, null));
        assert.deepEqual(called, ["a", "b", "c", "a", "b", "c", "d"]);
        end.open();
        await Promise.all([...shared, blocked]);
      });
    },
  },
  {
    name: "query sees every request that its program made before it",
    needs: ["queue"],
    async run(bench) {
      const { web } = bench.connect();
      await rounds(bench, async (name) => {
        const ends = [gate(), gate(), gate()] as const;
        const called: string[] = [];
        const request = (at: 0 | 1 | 2, which: string, mode: WebLockMode) =>
          web.request(name, { mode }, () => {
            called.push(which);
            return ends[at].opened;
          });
        const five = (at: 0 | 2) =>
          Promise.all([1, 2, 3, 4, 5].map((one) => request(at, `${at}.${one}`, "shared")));
        const shared = Array<WebLockMode>(5).fill("shared");
        const before = five(0);
        const between = request(1, "1", "exclusive");
        const after = five(2);
        assert.deepEqual(await modes(web, name), { held: shared, pending: ["exclusive", ...shared] });
        ends[0].open();
        await before;
        assert.deepEqual(await modes(web, name), { held: ["exclusive"], pending: shared });
        ends[1].open();
        await between;
        assert.deepEqual(await modes(web, name), { held: shared, pending: [] });
        ends[2].open();
        await after;
        // Those that were let in together, too.
        const order = [0, 2].map((at) => [1, 2, 3, 4, 5].map((one) => `${at}.${one}`));
        assert.deepEqual(called, [...(order[0] ?? []), "1", ...(order[1] ?? [])]);
      });
    },
  },
  {
    name: "query sees a request that can still be called off",
    needs: ["queue"],
    async run(bench) {
      const { web } = bench.connect();
      await rounds(bench, async (name) => {
        const end = gate();
        const controller = new AbortController();
        const holding = web.request(name, () => end.opened);
        const off = web.request(name, { signal: controller.signal }, () => assert.fail("was granted"));
        assert.deepEqual(await modes(web, name), { held: ["exclusive"], pending: ["exclusive"] });
        controller.abort();
        await assert.rejects(off, (error) => error === controller.signal.reason);
        end.open();
        await holding;
      });
    },
  },
  {
    name: "query sees that a lock was stolen, and its callback is called before those of later requests",
    needs: ["queue"],
    async run(bench) {
      const { web } = bench.connect();
      await rounds(bench, async (name) => {
        const end = gate();
        const called: string[] = [];
        const request = (which: string, to: string, steal: boolean) =>
          web.request(`${name}:${to}`, { steal }, () => {
            called.push(which);
            return end.opened;
          });
        const victim = assert.rejects(request("victim", "a", false), isAbort);
        const thief = request("thief", "a", true);
        const other = request("other", "b", false);
        assert.deepEqual(await modes(web, `${name}:a`), { held: ["exclusive"], pending: [] });
        assert.deepEqual(called, ["victim", "thief", "other"]);
        await victim;
        end.open();
        await Promise.all([thief, other]);
      });
    },
  },
  {
    name: "what a callback asks for comes to the engine before its lock is given back",
    needs: ["queue"],
    async run(bench) {
      const { web } = bench.connect();
      await rounds(bench, async (name) => {
        const called: string[] = [];
        let inner: Promise<unknown> | undefined;
        await web.request(name, () => {
          const again = web.request(name, () => void called.push("again"));
          const other = web.request(`${name}:b`, () => void called.push("other"));
          inner = Promise.all([again, other]);
        });
        await inner;
        assert.deepEqual(called, ["other", "again"]);
      });
    },
  },
  {
    name: "query shows the requests of several programs in the order in which they came",
    needs: ["queue"],
    async run(bench) {
      const name = bench.name();
      const program = (instance: string) => bench.connect({ owner: { instance } }).web;
      const watcher = program("0");
      const [first, second, third] = [program("1"), program("2"), program("3")];
      const held = gate();
      const ends: Promise<unknown>[] = [];
      const wait = async (web: typeof watcher) => {
        ends.push(web.request(name, () => held.opened));
        // When this has been answered, the request is at the engine.
        await web.query();
      };
      const waiting = async () =>
        (await watcher.query()).pending.filter((info) => info.name === name).map(({ clientId }) => clientId);
      await wait(watcher);
      for (const web of [third, first, second]) await wait(web);
      assert.deepEqual(await waiting(), ["3", "1", "2"]);
      await wait(first);
      assert.deepEqual(await waiting(), ["3", "1", "2", "1"]);
      held.open();
      await Promise.all(ends);
      assert.deepEqual(await waiting(), []);
    },
  },
];
