/**
 * Runs all contenders in each round, one after the other, and begins each round with another one: what the machine
 * does meanwhile, and what the one before leaves behind, falls on all of them. The first rounds warm up.
 * Gives the columns of each contender: `{ [name]: { rate: [first round, second round, …], … } }`.
 */
export async function inRounds({ rounds, warmUp = 1, names, run, onRound = () => undefined }) {
  const columns = Object.fromEntries(names.map((name) => [name, {}]));
  for (let round = -warmUp; round < rounds; round++) {
    for (let index = 0; index < names.length; index++) {
      const name = names[(index + round + warmUp) % names.length];
      onRound(round < 0 ? `warming up: ${name}` : `round ${round + 1} of ${rounds}: ${name}`);
      const sample = await run(name);
      if (round < 0) continue;
      for (const [field, value] of Object.entries(sample)) {
        columns[name][field] ??= [];
        columns[name][field].push(value);
      }
    }
  }
  return columns;
}
