/** Medians, percentiles, and ratios with the interval that holds their median in 95 of 100 repetitions. */

const RESAMPLES = 2_000;

export async function timeMs(work) {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

export function percentile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

/**
 * A percentile of the waits in which each worker counts alike, however often it was granted. Else a worker that takes
 * the lock again and again while the others starve would bring its many short waits along, and hide theirs.
 */
export function percentilePerWorker(waitsMs, share) {
  const weighed = waitsMs.flatMap((waits) => waits.map((waitMs) => ({ waitMs, weight: 1 / waits.length })));
  weighed.sort((one, other) => one.waitMs - other.waitMs);
  const enough = share * waitsMs.length;
  let sum = 0;
  for (const { waitMs, weight } of weighed) {
    sum += weight;
    if (sum >= enough) return waitMs;
  }
  return weighed.at(-1)?.waitMs;
}

/** Of two columns whose entries belong to the same rounds: what slows a whole round falls out of the ratio. */
export function ratioOf(ours, theirs) {
  return summary(ours.map((value, round) => value / theirs[round]));
}

/** The median, and its 95 % bootstrap interval: the rounds are drawn again and again, with replacement. */
export function summary(values) {
  const random = generator(values.length);
  const medians = Array.from({ length: RESAMPLES }, () =>
    median(values.map(() => values[Math.floor(random() * values.length)])),
  );
  return { value: median(values), low: percentile(medians, 0.025), high: percentile(medians, 0.975) };
}

/** Always the same numbers, so that the same measurements give the same interval (mulberry32). */
function generator(seed) {
  let state = seed + 0x6d2b79f5;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
