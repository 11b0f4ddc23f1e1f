import { socketTls, type TlsSettings } from "../../engine-kit/tls.js";

/**
 * For the options of a TLS connection. The clients listen for one error of a stream; Node.js may emit a second one
 * when a certificate was refused, and that would end the process. For a stream with a signal, Node.js itself listens
 * for all errors.
 */
const WITH_ALL_ERRORS_HEARD = { signal: neverAborted() };

export function streamTls(tls: TlsSettings): object {
  return { ...socketTls(tls), ...WITH_ALL_ERRORS_HEARD };
}

/** One for all streams: as it never aborts, it need not remember who listens. */
function neverAborted(): AbortSignal {
  const { signal } = new AbortController();
  signal.addEventListener = () => {};
  return signal;
}
