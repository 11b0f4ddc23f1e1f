// Runs tests against changed copies of the build, one run for each message of the parent. All of them share this
// process: most of the work of a run would be to start Node.js and to load Vitest.
import { createVitest } from "vitest/node";

/** The settings read the copy's place from the environment, so that they are read one after the other. */
let ready = Promise.resolve();

function open({ dist, pattern }) {
  const opening = ready.then(() => {
    process.env.LOCKTENDER_DIST = dist;
    return createVitest("test", {
      watch: false,
      testNamePattern: pattern,
      reporters: [{}],
      // For the processes of the tests, which are started later.
      env: { LOCKTENDER_DIST: dist },
    });
  });
  ready = opening.then(
    () => undefined,
    () => undefined,
  );
  return opening;
}

async function run(request) {
  const vitest = await open(request);
  try {
    const { testModules, unhandledErrors } = await vitest.start([request.file]);
    const tests = testModules.flatMap((module) => [...module.children.allTests()]);
    const named = (state) =>
      tests.filter((test) => test.result().state === state).map(({ fullName }) => fullName);
    const errors = [...testModules.flatMap((module) => module.errors()), ...unhandledErrors];
    return {
      passed: named("passed"),
      failed: named("failed"),
      errors: errors.map((error) => String(error.message ?? error)),
    };
  } finally {
    await vitest.close();
  }
}

process.on("message", async ({ id, request }) => {
  try {
    process.send({ id, outcome: await run(request) });
  } catch (error) {
    process.send({ id, error: String(error?.stack ?? error) });
  }
});
process.on("disconnect", () => process.exit());
