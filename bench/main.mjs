// Measures what locks cost, as ratios to the bare client in one run: machines are noisy.
//   npm run bench              everything that needs only Redis and SQLite, but the million names
//   npm run bench -- sqlite    one of: sequential parallel hand-off waiters sqlite renewals idle-names quorum etcd zookeeper postgres mysql, or engines: all side by side
import { startRedis } from "./server.mjs";

const ALL = ["sequential", "parallel", "hand-off", "waiters", "renewals", "sqlite"];
const wanted = process.argv.slice(2);
const server = await startRedis();
try {
  for (const name of wanted.length > 0 ? wanted : ALL) {
    const { measure } = await import(`./${name}.mjs`);
    console.log(`\n${name}`);
    for await (const line of measure(server)) console.log(`  ${line}`);
  }
} finally {
  await server.stop();
}
