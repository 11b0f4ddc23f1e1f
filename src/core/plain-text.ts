// Text that came from another process, a server or a user, as it may stand in a message. On a terminal, control
// characters would move the cursor, change colours or hide what follows; in a log, a line break would forge a line.

/** As much of one text as is shown. */
const MOST_CHARACTERS = 1_000;
/** No message that we compose of such texts is longer. */
const MOST_OF_MESSAGE = 20_000;

/**
 * Controls (C0, DEL, C1), the separators of lines and paragraphs, invisible formats such as those that turn the
 * direction of reading, and halves of characters. The two joiners stay: many scripts and signs are written with them.
 */
const UNPRINTABLE = /(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;
const SHORT: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** On one line, with everything that a terminal would act on escaped, and cut if it is long. */
export function plainText(text: string): string {
  return cut(text, MOST_CHARACTERS).replace(UNPRINTABLE, escaped);
}

/** The same in quotation marks, which it cannot end by itself: as in JSON. */
export function quotedText(text: string): string {
  const quoted = cut(text, MOST_CHARACTERS).replace(/["\\]/g, "\\$&");
  return `"${quoted.replace(UNPRINTABLE, escaped)}"`;
}

/** A message that we have composed: our own line breaks stay. */
export function plainMessage(message: string): string {
  return cut(message, MOST_OF_MESSAGE).replace(UNPRINTABLE, (char) => (char === "\n" ? char : escaped(char)));
}

function escaped(char: string): string {
  const code = char.codePointAt(0) ?? 0;
  const hex = code.toString(16);
  return SHORT[char] ?? (code > 0xffff ? `\\u{${hex}}` : `\\u${hex.padStart(4, "0")}`);
}

function cut(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most)}… (${text.length} characters)`;
}

/** JSON has no bigint: in it, tokens are decimal strings. What people log must not throw for that. */
export function decimalJson(record: object): Record<string, unknown> {
  const entries = Object.entries(record);
  return Object.fromEntries(
    entries.map(([key, value]) => [key, typeof value === "bigint" ? String(value) : value]),
  );
}

/** The record itself, which from now on can be written as JSON; nothing else is to be seen of that. */
export function writable<T extends object>(record: T): T {
  return Object.defineProperty(record, "toJSON", { value: toJSON });
}

function toJSON(this: object): Record<string, unknown> {
  return decimalJson(this);
}
