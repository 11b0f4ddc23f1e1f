import type { Force, Gone } from "../../core/backend.js";
import { nowMs } from "../../core/clock.js";
import { backendError } from "../../core/errors.js";
import { forceIn, parsed, readMetadata } from "../../engine-kit/claim-metadata.js";
import { refusal, unless } from "./errors.js";
import { parentOf } from "./own-claim.js";
import { ERROR, getData, multi, remove, setData } from "./protocol.js";
import { bellsOf, type Session } from "./session.js";

/** How long a claim that is gone can still learn why. */
const KEPT_MS = 60_000;
/** A bell keeps the newest words; whoever was not rung by then learns only that it is gone. */
const MOST_WORDS = 50;
const MOST_ATTEMPTS = 20;

interface Word {
  readonly id: string;
  readonly reason?: string;
  readonly by?: string;
}

/** Why claims of ours are gone: what was said at our bells, and what became of our sessions. */
export class GoneReasons {
  readonly #byId = new Map<string, { readonly gone: Gone; readonly untilMs: number }>();

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

  /** Reads what stands at a bell; what is new is told. */
  async listen(session: Session, onNew: (id: string, gone: Gone) => void): Promise<void> {
    for (const { id, ...force } of readWords(await session.readBell())) {
      if (this.#byId.has(id)) continue;
      const gone: Gone = { state: "gone", loss: "forced", ...forceIn(force) };
      this.add(id, gone);
      onNew(id, gone);
    }
  }
}

/** Takes a claim away, and leaves word for its process in the same step. */
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
  const read = await client.send(getData(path, false)).catch(unless(ERROR.noNode));
  if (read === undefined) return false;
  const said = readMetadata(read.data)?.bell;
  // Whoever may make a claim must not have us write elsewhere, where we may be allowed to and it is not.
  const bell = said?.startsWith(bellsOf(root)) ? said : undefined;
  for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
    const words = bell && (await client.send(getData(bell, false)).catch(unless(ERROR.noNode)));
    if (!bell || !words) {
      const removed = client.send(remove(path)).then(() => true);
      return (await removed.catch(unless(ERROR.noNode))) ?? false;
    }
    const { reason, by } = force;
    const word: Word = { id: claim.id, reason, ...(by === undefined ? undefined : { by }) };
    const data = Buffer.from(JSON.stringify([...readWords(words.data), word].slice(-MOST_WORDS)));
    const [rung, removed] = await client.send(multi([setData(bell, data, words.stat.version), remove(path)]));
    if (removed?.error === 0) return true;
    if (removed?.error === ERROR.noNode) return false;
    // Somebody else left word meanwhile, or the process is gone.
    const code = rung?.error ?? ERROR.connectionLoss;
    if (code !== ERROR.badVersion && code !== ERROR.noNode) throw refusal(code, "its bell");
  }
  throw backendError(`too many take away "${claim.name}" at once.`, { name: claim.name, retryable: true });
}

function readWords(data: Buffer): readonly Word[] {
  const words = parsed(data.toString());
  return Array.isArray(words) ? words.filter((word) => typeof word?.id === "string") : [];
}
