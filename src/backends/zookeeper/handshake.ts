import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { type Sent, sendingNow } from "../../core/clock.js";
import { startTimer } from "../../core/timer.js";
import { socketTls } from "../../engine-kit/tls.js";
import { takeMessage } from "./jute.js";
import type { ZooKeeperSettings } from "./options.js";
import { connectFrame, type Handshake } from "./protocol.js";

/** A socket that is on its way to a server. */
export function dial(
  { tls }: ZooKeeperSettings,
  { host, port }: { readonly host: string; readonly port: number },
): Socket {
  return tls === undefined ? connect({ host, port }) : connectTls({ host, port, ...socketTls(tls, host) });
}

/** Says hello, and waits for the answer. */
export function performHandshake(
  socket: Socket,
  secure: boolean,
  handshake: Handshake,
  limitMs: number,
): Promise<{ sent: Sent; reply: Buffer; rest: Buffer }> {
  return new Promise((resolve, reject) => {
    let sent = sendingNow();
    let received: Buffer = Buffer.alloc(0);
    const onClose = () =>
      fail(
        new Error(
          "the server closes connections at once. Has the ensemble no quorum, this host too many connections (maxClientCnxns), or does the server speak TLS at this port (zookeepers://)?",
        ),
      );
    const onData = (bytes: Buffer) => {
      received = Buffer.concat([received, bytes]);
      try {
        const reply = takeMessage(received);
        if (reply === undefined) return;
        stop();
        resolve({ sent, reply, rest: received.subarray(4 + reply.length) });
      } catch (error) {
        fail(error);
      }
    };
    // That it closes comes as an error if it has not read what we said, or we say it later.
    const onError = (error: Error & { readonly code?: string }) =>
      !secure && ["ECONNRESET", "EPIPE"].includes(error.code ?? "") ? onClose() : fail(error);
    const stop = () => {
      clearTimeout(timer);
      socket.off("close", onClose).off("data", onData).off("error", onError);
      // Whatever becomes of it before it is used or destroyed must not end the process.
      socket.on("error", () => {});
    };
    const fail = (error: unknown) => {
      stop();
      reject(error);
    };
    const timer = startTimer(() => fail(new Error(`no answer within ${Math.round(limitMs)} ms.`)), limitMs);
    socket.on("close", onClose).on("data", onData).on("error", onError);
    socket.once(secure ? "secureConnect" : "connect", () => {
      sent = sendingNow();
      socket.write(connectFrame(handshake));
    });
  });
}
