import { invalidOption } from "../core/errors.js";

/** What a parameter of a URL does. `Sets` are the names of all that parameters of the engine can set. */
export interface Parameter<Sets extends string = string> {
  /** Several parameters may set the same, because tools have different names for it; `null` if it sets nothing. */
  readonly sets: Sets | null;
  /** The value; `null` if this text sets nothing, and `undefined` if it is not valid. */
  readonly read: (text: string) => unknown;
  /** What the text must be. */
  readonly must: string;
}

/** The parameters that the URL of an engine may have. All others are refused. */
export interface ParameterTable<Sets extends string = string> {
  readonly honoured: Readonly<Record<string, Parameter<Sets>>>;
  /** Those of other tools that mean nothing to locks: pools, caches, types of values. None concerns TLS. */
  readonly withoutEffect: readonly string[];
}

/** Any text but none. */
export function text<Sets extends string>(sets: Sets): Parameter<Sets> {
  return { sets, read: (given) => given || undefined, must: "must not be empty" };
}

export function whole<Sets extends string>(sets: Sets): Parameter<Sets> {
  const read = (given: string) => (/^\d{1,9}$/.test(given) ? Number(given) : undefined);
  return { sets, read, must: "must be a whole number" };
}

/** Milliseconds, or a text with a unit. Whether it is one is judged where the option is read. */
export function duration<Sets extends string>(sets: Sets): Parameter<Sets> {
  const read = (given: string) => (/^\d{1,15}$/.test(given) ? Number(given) : given);
  return { sets, read, must: "" };
}

/** Seconds, as tools with a C ancestry count. 0 means "no limit" there, so it is the longest time. */
export function seconds<Sets extends string>(sets: Sets, longestMs: number): Parameter<Sets> {
  const read = (given: string) => {
    if (!/^\d{1,6}(\.\d+)?$/.test(given)) return undefined;
    return Math.min(Number(given) * 1_000 || longestMs, longestMs);
  };
  return { sets, read, must: "must be a number of seconds" };
}

/** One of these words, in capitals or not, each with its value. */
export function words<Sets extends string>(
  sets: Sets,
  values: Readonly<Record<string, unknown>>,
  must = `must be ${Object.keys(values).join(" or ")}`,
): Parameter<Sets> {
  const byWord = new Map(Object.entries(values));
  return { sets, read: (given) => byWord.get(given.toLowerCase()), must };
}

/** What changes nothing for us as long as it is this: what we do anyway. */
export function accepted(pattern: RegExp, must: string): Parameter<never> {
  return { sets: null, read: (given) => (pattern.test(given) ? null : undefined), must };
}

export function flag<Sets extends string>(sets: Sets): Parameter<Sets> {
  return words(sets, { true: true, false: false, 1: true, 0: false }, "must be true or false");
}

/** What the parameters of a URL set, by the names of the table. */
export function readParameters<Sets extends string>(
  engine: string,
  query: string,
  { honoured, withoutEffect }: ParameterTable<Sets>,
): Readonly<Partial<Record<Sets, unknown>>> {
  const values: Partial<Record<Sets, unknown>> = {};
  const setBy = new Map<Sets, string>();
  for (const [name, given] of new URLSearchParams(query)) {
    if (withoutEffect.includes(name)) continue;
    const parameter = Object.hasOwn(honoured, name) ? honoured[name] : undefined;
    if (parameter === undefined) {
      const known = Object.keys(honoured).join(", ");
      const why =
        known === "" ? "but it takes no parameters" : `which is not known here. Known are: ${known}`;
      throw invalidOption(`${engine}: the URL has a parameter ${shown(name)}, ${why}.`);
    }
    const { sets, read, must } = parameter;
    const value = read(given);
    if (value === undefined) throw invalidOption(`${engine}: ${name} in the URL ${must}.`);
    if (value === null || sets === null) continue;
    const other = setBy.get(sets);
    // Which of them counts would be a guess, and tools guess differently.
    if (other !== undefined && values[sets] !== value) {
      const both = other === name ? `${name} is given twice` : `${other} and ${name} contradict each other`;
      throw invalidOption(`${engine}: ${both} in the URL. Give one of them.`);
    }
    setBy.set(sets, name);
    values[sets] = value;
  }
  return values;
}

/** The options of an engine: what the caller gives, and what the URL says. `known` are the names of all. */
export function withParameters<Options extends object>(
  options: Options,
  parameters: object,
  known: Iterable<string>,
): Options {
  const merged = { ...options } as Record<string, unknown>;
  const said = parameters as Readonly<Record<string, unknown>>;
  for (const name of known) {
    if (said[name] === undefined) continue;
    if (merged[name] !== undefined)
      throw invalidOption(`${name}: is given as an option and in the URL. Give one of them.`);
    merged[name] = said[name];
  }
  return merged as Options;
}

/** Nothing but a plain name is repeated: a URL that was put together wrongly may have anything there. */
function shown(name: string): string {
  return /^[\w.-]{1,40}$/.test(name) ? `"${name}"` : "with a name that is not plain text";
}
