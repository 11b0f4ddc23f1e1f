import type { Connection } from "../core/connection.js";

const SIGTERM_EXIT_CODE = 128 + 15;

/** Our own listeners, of all connections of this process. */
const ours = new Set<() => void>();

/**
 * On SIGTERM, closes first. Handlers of the user's stay in charge: only where there are none is the
 * signal raised again, so that the process ends as it would have without us.
 */
export function closeOnSigterm(connection: Connection, close: () => Promise<void>): void {
  const onSigterm = () => {
    // Asked first, before a handler of the user's that is called once is taken off the list.
    const alone = process.listenerCount("SIGTERM") === ours.size;
    const end = () => {
      forget();
      if (!alone || ours.size > 0) return;
      // The first process of a container has no default action for signals: nothing would happen.
      if (process.pid === 1) process.exit(SIGTERM_EXIT_CODE);
      process.kill(process.pid, "SIGTERM");
    };
    void close().then(end, end);
  };
  const forget = () => {
    ours.delete(onSigterm);
    process.removeListener("SIGTERM", onSigterm);
  };
  ours.add(onSigterm);
  process.prependListener("SIGTERM", onSigterm);
  connection.onFinish(forget);
}
