import { connect } from "node:net";
import { startTimer } from "../../core/timer.js";
import type { RedisHost } from "./url.js";

/** A server that is there answers at once. */
const LONGEST_MS = 500;

/**
 * Whether a server speaks without TLS there. Such a server keeps silent when TLS is spoken to it: it takes that for
 * the beginning of a command. So a silence is looked into, once.
 */
export function answersWithoutTls({ host, port }: RedisHost): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port });
    const over = (answered: boolean) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(answered);
    };
    const timer = startTimer(() => over(false), LONGEST_MS);
    socket.on("connect", () => socket.write("PING\r\n"));
    // A status, or the error that one has to log in first.
    socket.on("data", (bytes) => over(/^[+-]/.test(bytes.toString("latin1"))));
    socket.on("error", () => over(false));
    socket.on("close", () => over(false));
  });
}
