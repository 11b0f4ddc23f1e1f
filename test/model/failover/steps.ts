import { FLOOR_BOUND_US } from "#lib/engine-kit/queue.js";
import { type Design, draw, floorOf } from "./designs.js";
import { aheadOf, clockUs, copyOf, type Drawn, type Plan, type Process, type State } from "./state.js";

/**
 * Why a token went back.
 * - newcomer: no answer that its process had seen showed the clock of the server that drew the greater one
 * - within the lag: the greater one was drawn so shortly before that the estimate of that clock may lag by more
 * - beyond the bound: the clock of the server was farther behind than a floor may be ahead
 */
export type Regression = "newcomer" | "within the lag" | "beyond the bound" | "unexplained";

export interface Step {
  readonly state: State;
  readonly regression?: Regression | undefined;
}

/** All states that can follow, while claims are left. */
export function successors(state: State, plan: Plan, design: Design): readonly Step[] {
  const busy = ({ sent, request }: Process, index: number) =>
    request !== undefined || sent < (plan.claims[index]?.length ?? 0);
  if (!state.processes.some(busy)) return [];
  const processes = state.processes.map((_, index) => index);
  return [
    ...timePasses(state, plan),
    ...serversChange(state, plan),
    ...processes.flatMap((index) => processActs(state, index, plan, design)),
  ];
}

function timePasses(state: State, { until, sleep = 0 }: Plan): readonly Step[] {
  if (state.now >= until) return [];
  const asleep = state.processes.flatMap(({ sleptFor }, index) => (sleptFor < sleep ? [index] : []));
  return [undefined, ...asleep].map((sleeper) =>
    after(state, (next) => {
      next.now++;
      if (sleeper !== undefined) processOf(next, sleeper).sleptFor++;
    }),
  );
}

function serversChange(state: State, plan: Plan): readonly Step[] {
  const { serving, newest, jumped, now, downAt } = state;
  const steps: Step[] = [];
  if (plan.jump !== undefined && jumped !== "over") {
    steps.push(
      after(state, (next) => {
        next.jumped = jumped === "not yet" ? "now" : "over";
      }),
    );
  }
  const standby = newest + 1;
  if (serving.includes(newest) && standby < state.last.length) {
    const replicated = after(state, (next) => {
      next.last[standby] = { ...next.last[newest] };
    });
    const failed = after(state, (next) => {
      next.downAt = now;
      next.newest = standby;
      if (plan.oldServesOn !== true) next.serving = [];
    });
    steps.push(replicated, failed);
  }
  if (!serving.includes(newest) && now >= downAt + plan.gap) {
    steps.push(after(state, (next) => next.serving.push(newest)));
  }
  return steps;
}

function processActs(state: State, index: number, plan: Plan, design: Design): readonly Step[] {
  const { sent, request, answer } = processOf(state, index);
  const lost = after(state, (next) => {
    processOf(next, index).request = undefined;
    processOf(next, index).answer = undefined;
  });
  if (answer !== undefined) return [after(state, (next) => receive(next, index)), lost];
  if (request !== undefined) {
    return [lost, ...state.serving.map((server) => serve(copyOf(state), index, server, plan))];
  }
  if (sent === plan.claims[index]?.length) return [];
  const asked = after(state, (next) => send(next, index, plan, design));
  if (plan.delays === true) return [asked];
  return state.serving.map((server) => {
    const step = serve(copyOf(asked.state), index, server, plan);
    receive(step.state, index);
    return step;
  });
}

function send(state: State, index: number, plan: Plan, design: Design): void {
  const process = processOf(state, index);
  const name = plan.claims[index]?.[process.sent++] ?? "";
  const floor = floorOf(design, process, (state.now - process.sleptFor) * 1_000);
  process.request = { name, floor, sentAt: state.now };
}

function serve(state: State, index: number, server: number, plan: Plan): Step {
  const process = processOf(state, index);
  const { name, floor, sentAt } = process.request ?? { name: "", floor: 0, sentAt: 0 };
  const last = state.last[server] ?? {};
  const shownUs = clockUs(state, server, plan);
  const drawn: Drawn = [draw(last[name] ?? 0, shownUs, floor), state.now];
  last[name] = drawn[0];
  process.request = undefined;
  process.answer = drawn;
  const greatest = state.greatest[name] ?? [0, 0];
  if (drawn[0] <= greatest[0]) {
    const beyond = floor > shownUs + FLOOR_BOUND_US;
    return { state, regression: beyond ? "beyond the bound" : explain(process, sentAt, greatest) };
  }
  state.greatest[name] = drawn;
  return { state };
}

function receive(state: State, index: number): void {
  const process = processOf(state, index);
  const { answer, seen, sleptFor } = process;
  if (answer !== undefined) process.seen = [...seen, [answer, state.now - sleptFor]];
  process.answer = undefined;
}

/** A floor is rounded down to it. */
const STEP_S = 0.01;

/**
 * The lag is the time that an answer took, the sleep since then, a thousandth of the time since then, what the
 * ticket itself lagged, if another's estimate or the counter of the name decided it, and the rounding.
 */
function explain({ seen, sleptFor }: Process, sentAt: number, greatest: Drawn): Regression {
  const behind = (drawn: Drawn) => Math.max(0, aheadOf(greatest) - aheadOf(drawn));
  const showing = seen.filter(([drawn]) => behind(drawn) < 1);
  const lags = showing.map(
    ([drawn, seenAt]) => STEP_S + behind(drawn) + sentAt - drawn[1] - (sentAt - sleptFor - seenAt) * 0.999,
  );
  if (lags.length === 0) return "newcomer";
  return sentAt - greatest[1] <= Math.min(...lags) ? "within the lag" : "unexplained";
}

function after(state: State, change: (next: State) => void): Step {
  const next = copyOf(state);
  change(next);
  return { state: next };
}

function processOf({ processes }: State, index: number): Process {
  const process = processes[index];
  if (process === undefined) throw new Error("no such process");
  return process;
}
