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
