import { randomBytes } from "node:crypto";

/** Braces delimit the hash tag, so a name that contains some must not be able to end it. */
export function encodeName(name: string): string {
  if (!/[%{}]/.test(name)) return name;
  return name.replace(/[%{}]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}

export function decodeName(encoded: string): string {
  return encoded.replace(/%(25|7B|7D)/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

/** A pattern for SCAN that finds the locks whose names begin so. */
export function lockPattern(keyPrefix: string, prefix: string, namePrefix: string): string {
  return `${escapeGlob(`${keyPrefix}${prefix}:{${encodeName(namePrefix)}`)}*}`;
}

export function nameOfKey(prefix: string, key: string): string | undefined {
  const start = `${prefix}:{`;
  const end = "}";
  if (!key.startsWith(start) || !key.endsWith(end)) return undefined;
  return decodeName(key.slice(start.length, -end.length));
}

/** A new channel, on which one process is notified: scripts know which claims they let in, and notify no others. */
export function notificationChannel(prefix: string): string {
  return `${prefix}:bell:${randomBytes(9).toString("base64url")}`;
}

function escapeGlob(text: string): string {
  return text.replace(/[\\*?[\]]/g, "\\$&");
}
