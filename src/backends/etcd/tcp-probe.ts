import { connect } from "node:net";
import { AnswerTimer } from "../../engine-kit/request-timeout.js";
import { CODE } from "./errors.js";

/**
 * Whether anything takes connections there; rejects with an error such as the library's if not. The library itself
 * goes on for minutes if a machine does not answer at all, and keeps the process alive meanwhile.
 */
export function probeTcp(host: string, port: number, timeoutMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port });
    const end = (settle: () => void) => {
      timer.stop();
      socket.destroy();
      settle();
    };
    const timer = new AnswerTimer(timeoutMs, () => {
      end(() => reject(failure(CODE.deadlineExceeded, "the server does not take the connection")));
    });
    socket.once("connect", () => end(resolve));
    // Stays: a socket that is destroyed may still have something to complain of.
    socket.on("error", (error) => {
      end(() => reject(failure(CODE.unavailable, `No connection established: ${textOf(error)}`)));
    });
  });
}

/** Of several addresses the first. */
function textOf(error: Error): string {
  const [first] = error instanceof AggregateError ? error.errors : [];
  return first instanceof Error ? first.message : error.message;
}

function failure(code: number, details: string): Error {
  return Object.assign(new Error(details), { code, details });
}
