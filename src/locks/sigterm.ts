import type { Connection } from "../core/connection.js";

/**
 * On SIGTERM, closes first. Handlers of the user's stay in charge: only where there are none is the
 * signal raised again, so that the process ends as it would have without us.
 */
export function closeOnSigterm(connection: Connection, close: () => Promise<void>): void {
  const onSigterm = () => {
    void close().then(end, end);
  };
  const end = () => {
    process.removeListener("SIGTERM", onSigterm);
    if (process.listenerCount("SIGTERM") === 0) process.kill(process.pid, "SIGTERM");
  };
  process.on("SIGTERM", onSigterm);
  connection.onFinish(() => process.removeListener("SIGTERM", onSigterm));
}
