import type { Force, Gone } from "../../core/backend.js";
import { nowMs } from "../../core/clock.js";
import { backendError } from "../../core/errors.js";
import { forceIn, parsed, readMetadata } from "../../engine-kit/claim-metadata.js";
import { parentOf } from "./claim.js";
import { refusal } from "./errors.js";
import { ERROR, multi, remove, setData } from "./messages.js";
import { bellsOf, type Session } from "./session.js";

/** How long a claim that is gone can still learn why. */
const KEPT_MS = 60_000;
/** A bell keeps the newest notices; a process that has not read one by then learns only that its claim is gone. */
const MOST_NOTICES = 50;
const MOST_ATTEMPTS = 20;

interface Notice extends Partial<Force> {
  readonly id: string;
}

/** Why claims of ours are gone: as other processes wrote it into our bells, and what became of our sessions. */
export class GoneReasons {
  readonly #byId = new Map<string, { readonly gone: Gone; readonly untilMs: number }>();
  readonly #onForced: (id: string, gone: Gone) => void;

  constructor(onForced: (id: string, gone: Gone) => void) {
    this.#onForced = onForced;
  }

  add(id: string, gone: Gone): void {
    const atMs = nowMs();
    // The oldest come first.
    for (const [old, { untilMs }] of this.#byId) {
      if (untilMs > atMs) break;
      this.#byId.delete(old);
    }
    this.#byId.set(id, { gone, untilMs: atMs + KEPT_MS });
  }

  of(id: string): Gone | undefined {
    return this.#byId.get(id)?.gone;
  }

  /** Reads the bell of a session; what is new is told. */
  async read(session: Session): Promise<void> {
    for (const { id, ...force } of readNotices(await session.readBell())) {
      if (this.#byId.has(id)) continue;
      const gone: Gone = { state: "gone", loss: "forced", ...forceIn(force) };
      this.add(id, gone);
      this.#onForced(id, gone);
    }
  }
}

/** Takes a claim away, and writes a notice for its process in the same step. */
export async function forceRelease(
  session: Session,
  root: string,
  claim: { readonly name: string; readonly id: string },
  force: Force,
): Promise<boolean> {
  const { client, queues } = session;
  const parent = parentOf(root, claim.name);
  const victim = (await queues.latest(parent)).find(({ id }) => id === claim.id);
  if (victim === undefined) return false;
  const path = `${parent}/${victim.node}`;
  const read = await session.find(path);
  if (read === undefined) return false;
  const { notify: said } = readMetadata(parsed(read.data.toString()));
  // A program that may make a claim must not have us write elsewhere, where we may be allowed to and it is not.
  const bell = said?.startsWith(bellsOf(root)) ? said : undefined;
  for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
    const found = bell && (await session.find(bell));
    if (!bell || !found) return session.remove(path);
    const notice: Notice = { id: claim.id, ...force };
    const data = Buffer.from(JSON.stringify([...readNotices(found.data), notice].slice(-MOST_NOTICES)));
    const [told, removed] = await client.send(multi([setData(bell, data, found.stat.version), remove(path)]));
    if (removed?.error === 0) return true;
    if (removed?.error === ERROR.noNode) return false;
    // Another process has written a notice meanwhile, or the process of the claim is gone.
    const code = told?.error ?? ERROR.connectionLoss;
    if (code !== ERROR.badVersion && code !== ERROR.noNode) throw refusal(code, "its bell");
  }
  throw backendError(`too many processes take away "${claim.name}" at once.`, {
    name: claim.name,
    retryable: true,
  });
}

function readNotices(data: Buffer): readonly Notice[] {
  const notices = parsed(data.toString());
  return Array.isArray(notices) ? notices.filter((notice) => typeof notice?.id === "string") : [];
}
