import { nowMs } from "../../core/clock.js";
import type { SqlLink } from "./link.js";
import { numberOf, textOf } from "./replies.js";
import { sweep, tidy } from "./routines.js";

/** At most this many names per visit: the transaction stays short. */
const NAMES_PER_VISIT = 1_000;
/** Many more names are visited than claims come, so the tables cannot grow faster than they are swept. */
const CLAIMS_PER_VISIT = 256;
const VISIT_MS = 1_000;
/** As many as `abandoned.sql` tells of at once. */
const ABANDONED_PER_LOOK = 16;

/**
 * Forgets idle names and the claims of crashed processes at names that nobody asks for any more, in the course
 * of ordinary work, walking over all names in turn. Nothing else has to be run.
 */
export class Sweeper {
  readonly #link: SqlLink;
  readonly #retentionUs: number;
  #claims = 0;
  #lastMs = nowMs();
  #after = "";
  #visiting = false;

  constructor(link: SqlLink, retentionMs: number) {
    this.#link = link;
    this.#retentionUs = Math.round(retentionMs * 1000);
  }

  /** After a claim; nobody waits for it. */
  claimed(): void {
    if (this.#visiting) return;
    if (++this.#claims < CLAIMS_PER_VISIT && nowMs() - this.#lastMs < VISIT_MS) return;
    this.#claims = 0;
    this.#visiting = true;
    this.#visit()
      // The claim itself has been answered. What is wrong with the database shows in the next one.
      .catch(() => undefined)
      .finally(() => {
        this.#visiting = false;
        this.#lastMs = nowMs();
      });
  }

  async #visit(): Promise<void> {
    const after = this.#after;
    // Every claim may have been left behind, so no more names may be passed over than are tidied up.
    for (let tidied = 0; tidied < NAMES_PER_VISIT; tidied += ABANDONED_PER_LOOK) {
      const [row] = await this.#link.call(sweep, [after, NAMES_PER_VISIT, this.#retentionUs]);
      this.#after = numberOf(row, "number") < NAMES_PER_VISIT ? "" : String(row?.last ?? "");
      // Where much is to be done, the next claim goes on with it.
      if (numberOf(row, "forgotten") > NAMES_PER_VISIT / 2) this.#claims = CLAIMS_PER_VISIT;
      const abandoned = JSON.parse(textOf(row, "abandoned")) as readonly string[];
      for (const name of abandoned) await this.#link.call(tidy, [name]);
      if (abandoned.length < ABANDONED_PER_LOOK) return;
    }
  }
}
