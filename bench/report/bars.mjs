import { median, ratioOf, summary } from "../lib/stats.mjs";
import { isPeer } from "../workloads/contended.mjs";

const TOO_WIDE = 2;
const OURS = "locktender";
const FAIR = "locktender, fair";

const ratio =
  (ours, theirs, field = "rate") =>
  (of) =>
    ratioOf(of[ours][field], of[theirs][field]);
const own = (name, field) => (of) => summary(of[name][field]);

/** Against the best of the other libraries: the one with the best median, with its defaults or its best delay. */
const ofBestPeer =
  (ours, field = "rate", better = Math.max) =>
  (of) => {
    const peers = Object.keys(of).filter(isPeer);
    const medians = peers.map((peer) => median(of[peer][field]));
    const best = peers[medians.indexOf(better(...medians))];
    return { ...ratioOf(of[ours][field], of[best][field]), beside: best };
  };

/** What is wanted of each workload, beside the other libraries in the same run. */
export const BARS = [
  ["sequential", "cycles, of the bare client", { atLeast: 0.92 }, ratio(OURS, "bare")],
  ["sequential", "cycles, of redlock 5", { atLeast: 1 }, ratio(OURS, "redlock")],
  ["parallel", "cycles, of the bare client", { atLeast: 2 }, ratio(OURS, "bare")],
  ["parallel", "cycles, of the best peer", { atLeast: 1 }, ofBestPeer(OURS)],
  ["sticky", "cycles, of the bare client", { atLeast: 50 }, ratio(OURS, "bare")],
  ["sticky", "cycles, of the memory engine", { atLeast: 0.8 }, ratio(OURS, "memory")],
  ["no-hold", "grants, of the best peer", { atLeast: 20 }, ofBestPeer(OURS)],
  ["no-hold", "fair: grants, of the best peer", { atLeast: 1.5 }, ofBestPeer(FAIR)],
  ["no-hold", "fair: p99 wait, of the best peer", { atMost: 0.25 }, ofBestPeer(FAIR, "p99", Math.min)],
  ["no-hold", "requests per grant", { atMost: 0.1 }, own(OURS, "requests")],
  ["no-hold", "fair: requests per grant", { atMost: 1.2 }, own(FAIR, "requests")],
  ["hold-2ms", "lock busy", { atLeast: 0.9 }, own(OURS, "busy")],
  ["hold-2ms", "fair: lock busy", { atLeast: 0.9 }, own(FAIR, "busy")],
  ["hold-2ms", "p99 wait, of the best peer", { atMost: 0.2 }, ofBestPeer(OURS, "p99", Math.min)],
  ["hold-2ms", "fair: p99 wait, of the best peer", { atMost: 0.2 }, ofBestPeer(FAIR, "p99", Math.min)],
  ...["etcd", "zookeeper", "postgres", "mariadb", "redlock"].map((engine) => [
    `tasks-${engine}`,
    "grants, of one task alone",
    { atLeast: 20 },
    ratio("together", "alone"),
  ]),
  ["curator-alone", "cycles, of Curator", { atLeast: 1.2 }, ratio(OURS, "curator")],
  ["curator-together", "grants, of Curator", { atLeast: 20 }, ratio(OURS, "curator")],
  ["idle-waiters", "requests per waiter and second", { atMost: 0.01 }, own("waiting", "perSecond")],
  [
    "many-waiters",
    "server time per grant, of that beside 10",
    { atMost: 1.2 },
    ratio("many", "few", "serverUs"),
  ],
].map(([workload, what, bar, measure]) => ({ workload, what, bar, measure }));

/** The bars of a run: one for each workload and state in which it was measured. */
export function barsOf(run) {
  return BARS.flatMap(({ workload, what, bar, measure }) => {
    const measured = run.workloads.filter(({ id }) => id === workload);
    return measured.map(({ id, title, state, contenders, unsupported = [] }) => {
      const row = { id, title, state, what, bar };
      if (unsupported.length > 0) return { ...row, verdict: "unsupported" };
      const result = measure(contenders);
      return { ...row, ...result, verdict: verdictOf(result, bar) };
    });
  });
}

/** The median decides, unless the rounds differ so much that it says nothing about the bar. */
function verdictOf({ value, low, high }, bar) {
  const [atLow, atValue, atHigh] = [low, value, high].map((one) => isReached(one, bar));
  if (high > TOO_WIDE * low && atLow !== atHigh) return "unclear";
  return atValue ? "reached" : "missed";
}

const isReached = (value, { atLeast = -Infinity, atMost = Infinity }) => value >= atLeast && value <= atMost;
