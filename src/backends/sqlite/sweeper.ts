import { nowMs } from "../../core/clock.js";
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
    const after = this.#after;
    const { last, number } = session.read((db) => db.sweepRange.get({ after, most: MOST }));
    this.#after = number < MOST || last === null ? "" : last;
    if (last === null) return false;
    return session.transact((db, nowUs) => {
      const { changes } = db.sweepClaims.run({ after, last, nowUs, most: MOST });
      db.sweepResources.run({ after, last, idleSinceUs: wallUs() - this.#retentionUs });
      return changes > 0;
    });
  }
}
