import { nowMs } from "../../core/clock.js";
import { numberOf, textOf } from "../sql/replies.js";
import { sweep, tidy } from "../sql/routines.js";
import { wallUs } from "./clock.js";
import type { Session } from "./session.js";

/** At most this many names, and claims, per visit: the transaction stays short. */
const MOST = 64;
/** Twice as many names are visited as claims come, so the file cannot grow faster than it is swept. */
const CLAIMS_PER_VISIT = 32;
const VISIT_MS = 100;

/**
 * Forgets idle names and the claims of crashed processes at names that nobody asks for any more, a few in
 * the course of ordinary work, walking over all names in turn. Nothing else has to be run.
 */
export class Sweeper {
  readonly #retentionUs: number;
  #claims = 0;
  #lastMs = -Infinity;
  #after = "";

  constructor(retentionMs: number) {
    this.#retentionUs = retentionMs * 1000;
  }

  /** After a claim. Says whether claims were dropped, so that others may be let in. */
  sweep(session: Session): boolean {
    const atMs = nowMs();
    if (++this.#claims < CLAIMS_PER_VISIT && atMs - this.#lastMs < VISIT_MS) return false;
    this.#claims = 0;
    this.#lastMs = atMs;
    try {
      return this.#visit(session);
    } catch {
      // The claim itself has been answered. What is wrong with the file shows in the next one.
      return false;
    }
  }

  #visit(session: Session): boolean {
    const inputs = { after: this.#after, most: MOST, retention_us: this.#retentionUs };
    return session.transact(({ routines }, nowUs) => {
      const times = { nowUs, wallUs: wallUs() };
      const row = routines.run(sweep, inputs, times);
      this.#after = numberOf(row, "number") < MOST ? "" : textOf(row, "last");
      const abandoned = JSON.parse(textOf(row, "abandoned")) as readonly string[];
      for (const name of abandoned) routines.run(tidy, { name }, times);
      return abandoned.length > 0;
    });
  }
}
