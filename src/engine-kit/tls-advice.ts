interface Advice {
  readonly advice: string;
  /** Whether it may pass by itself: a server that is just being started or stopped hangs up in the middle, too. */
  readonly passes: boolean;
}

const UNKNOWN = "Node.js trusts no authority that has signed this certificate. Name its authority";
const UNKNOWN_AUTHORITY = `${UNKNOWN}: connect(url, { engine: { tls: { ca } } }) with the PEM text, or sslrootcert=/path/of/ca.pem in the URL. With sslmode=no-verify in the URL nothing is checked.`;
/** Where the connection is not made by a URL. */
const TO_YOURS = `${UNKNOWN} to the client or pool that is yours.`;

/** What to do about errors of TLS, by their texts; the first that fits. */
const ADVICE: readonly (readonly [text: RegExp, advice: string, passes?: true])[] = [
  [
    /self.signed certificate|unable to (get (local )?issuer|verify the first) certificate/i,
    UNKNOWN_AUTHORITY,
  ],
  [
    /match certificate|altnames/i,
    "The certificate is another host's: in the URL, name the host as the certificate does.",
  ],
  [/certificate/i, "The server must have a certificate that is valid, and so must we if it asks for one."],
  [
    /wrong version number|packet length too long|not support (SSL|secure)/i,
    "The server does not speak TLS at this port. Connect to the port where it does, or without TLS.",
  ],
  [
    /channel binding/,
    "channel_binding=require in the URL asks for it. Leave it out, or find out which server answers there.",
  ],
  [/\bSSL\b|\bTLS\b|secure connection/i, "Is the server running, and does it speak TLS at this port?", true],
];

/** `undefined` if it is no error of TLS. The connection may be one of the caller's own client or pool. */
export function tlsAdvice(message: string, isCallers = false): Advice | undefined {
  const [, advice, passes = false] = ADVICE.find(([text]) => text.test(message)) ?? [];
  if (advice === undefined) return undefined;
  return { advice: isCallers && advice === UNKNOWN_AUTHORITY ? TO_YOURS : advice, passes };
}
