/** A part of what a caller brought along. That may be anything, also something that throws when it is looked at. */
export function partOf(object: unknown, name: PropertyKey): unknown {
  if ((typeof object !== "object" && typeof object !== "function") || object === null) return undefined;
  try {
    return Reflect.get(object, name);
  } catch {
    return undefined;
  }
}

/** Whether all of these are there. None of them is called, so nothing happens to an object that is none of ours. */
export function hasMethods(object: unknown, names: readonly string[]): boolean {
  return names.every((name) => typeof partOf(object, name) === "function");
}

/** What was thrown, which may be anything, as an error. */
export function asError(thrown: unknown): Error {
  try {
    return thrown instanceof Error ? thrown : new Error(String(thrown));
  } catch {
    return new Error("something that cannot be shown was thrown");
  }
}
