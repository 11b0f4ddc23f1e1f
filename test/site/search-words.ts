/**
 * What people type who know locks and not this package, and the page that answers it. A page that does not exist yet
 * is skipped.
 */
export const SEARCH_WORDS: readonly (readonly [words: string, page: string])[] = [
  ["mutex", "docs/guide/mutex.md"],
  ["leader election", "docs/guide/election.md"],
  ["semaphore", "docs/guide/semaphores.md"],
  ["read-write lock", "docs/guide/read-write.md"],
  ["multi-lock", "docs/guide/all.md"],
  ["deadlock detection", "docs/guide/operating.md"],
  ["idempotency", "docs/guide/once.md"],
  ["optimistic locking", "docs/guide/cells.md"],
  ["fencing tokens", "docs/guide/fencing.md"],
  ["renewal", "docs/guide/loss-and-fencing.md"],
  ["Redlock", "docs/engines/redlock.md"],
];
