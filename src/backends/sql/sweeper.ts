import { nowMs } from "../../core/clock.js";
import type { SqlConnection } from "./connection.js";
import { countOf, namesOf, toUs } from "./replies.js";
import { sweep, tidy } from "./routines.generated.js";

/** At most this many names per visit: the transaction stays short. */
const NAMES_PER_VISIT = 1_000;
/** Many more names are visited than are made, so the tables cannot grow faster than they are swept. */
const USES_PER_VISIT = 256;
const VISIT_MS = 1_000;
/** As many as `sweep.sql` answers at once. */
const ABANDONED_PER_LOOK = 200;

/**
 * Forgets idle names and the claims of crashed processes at names that no process asks for any more, in the course
 * of ordinary work, walking over all names in turn. Nothing else has to be run.
 */
export class Sweeper {
  readonly #connection: SqlConnection;
  readonly #retentionUs: number;
  #uses = 0;
  #lastMs = nowMs();
  #after = "";
  #visiting = false;

  constructor(connection: SqlConnection, retentionMs: number) {
    this.#connection = connection;
    this.#retentionUs = toUs(retentionMs);
  }

  /** Called after each operation that may have made a name. The caller does not wait for the sweep. */
  used(): void {
    if (++this.#uses < USES_PER_VISIT && nowMs() - this.#lastMs < VISIT_MS) return;
    if (this.#visiting) return;
    this.#visiting = true;
    this.#visits()
      // What was asked for has been answered. What is wrong with the database shows in the next one.
      .catch(() => undefined)
      .finally(() => {
        this.#visiting = false;
        this.#lastMs = nowMs();
      });
  }

  /** Goes on if so much has been asked for meanwhile, or if much is to be done. */
  async #visits(): Promise<void> {
    do {
      this.#uses = 0;
      if (await this.#visit()) this.#uses = USES_PER_VISIT;
    } while (this.#uses >= USES_PER_VISIT);
  }

  /** Whether it was worth it. */
  async #visit(): Promise<boolean> {
    const after = this.#after;
    for (;;) {
      const [row] = await this.#connection.call(sweep, [after, NAMES_PER_VISIT, this.#retentionUs]);
      this.#after = countOf(row, "number") < NAMES_PER_VISIT ? "" : String(row?.last ?? "");
      const abandoned = namesOf(row, "abandoned");
      if (abandoned.length > 0) {
        const list = abandoned.map((name) => ({ name }));
        await this.#connection.call(tidy, [JSON.stringify(list)]);
      }
      // Every claim may have been left behind: no name is passed over before it is tidied up.
      if (abandoned.length < ABANDONED_PER_LOOK) return countOf(row, "forgotten") > NAMES_PER_VISIT / 2;
    }
  }
}
