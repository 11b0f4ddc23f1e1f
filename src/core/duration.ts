import { invalidOption } from "./errors.js";
import { quotedText } from "./plain-text.js";

/** Milliseconds, or a number with its unit: `"250ms"`, `"15s"`, `"5m"`, `"1h"`, `"1d"`. */
export type Duration = number | `${number}${"ms" | "s" | "m" | "h" | "d"}`;

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const PATTERN = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/;

/** Longer than this is taken for a mistake; "for ever" is said with `Infinity`, where it is allowed. */
const LONGEST_MS = 365 * 86_400_000;

export interface DurationRange {
  readonly minMs?: number;
  readonly maxMs?: number;
  readonly infinite?: boolean;
}

/** Milliseconds of a duration, or an `invalid-option` error that names the option. */
export function durationMs(option: string, value: unknown, range: DurationRange = {}): number {
  const { minMs = 0, maxMs = LONGEST_MS, infinite = false } = range;
  const ms = parse(value);
  if (ms === Infinity && infinite) return ms;
  if (ms === undefined || !Number.isFinite(ms)) {
    const forEver = infinite ? ", or Infinity" : "";
    throw invalidOption(
      `${option}: ${show(value)} is not a duration. Give milliseconds or a string such as "250ms", "15s", "5m"${forEver}.`,
    );
  }
  if (ms < minMs || ms > maxMs) {
    throw invalidOption(
      `${option}: ${show(value)} is out of range. The shortest is ${formatMs(minMs)}, the longest ${formatMs(maxMs)}.`,
    );
  }
  return ms;
}

function parse(value: unknown): number | undefined {
  if (typeof value === "number") return Number.isNaN(value) ? undefined : value;
  if (typeof value !== "string") return undefined;
  const match = PATTERN.exec(value);
  return match ? Number(match[1]) * (UNIT_MS[match[2] ?? ""] ?? Number.NaN) : undefined;
}

function show(value: unknown): string {
  if (typeof value === "string") return quotedText(value.slice(0, 40));
  return typeof value === "object" && value !== null ? "an object" : String(value).slice(0, 40);
}

/** A duration as people say it: `250 ms`, `4.2 s`, `3 m 20 s`. */
export function formatMs(ms: number): string {
  if (Math.round(ms) < 1_000) return `${Math.round(ms)} ms`;
  const tenths = Math.round(ms / 100);
  if (tenths < 600) return `${tenths / 10} s`;
  const seconds = Math.max(60, Math.floor(ms / 1_000));
  if (seconds < 3_600) return pair(seconds, 60, "m", "s");
  const minutes = Math.floor(seconds / 60);
  if (minutes < 1_440) return pair(minutes, 60, "h", "m");
  return pair(Math.floor(minutes / 60), 24, "d", "h");
}

function pair(count: number, perBig: number, big: string, small: string): string {
  const whole = Math.floor(count / perBig);
  const rest = count - whole * perBig;
  return rest === 0 ? `${whole} ${big}` : `${whole} ${big} ${rest} ${small}`;
}
