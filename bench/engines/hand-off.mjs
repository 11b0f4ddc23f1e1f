import { percentile } from "./bare.mjs";
import { contend, describeHandOff } from "./contend.mjs";

export async function* measure({ url, client }) {
  yield describeHandOff(url, 1_000);
  for (const holdMs of [0, 2]) {
    const onReady = () => client.config("RESETSTAT");
    const rounds = holdMs ? 20 : 200;
    const { grants, tookMs, waitsMs } = await contend({
      url,
      processes: 4,
      workers: 8,
      rounds,
      holdMs,
      onReady,
    });
    const stats = await client.info("commandstats");
    const requests = Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0);
    yield `4 processes x 8 workers on one key, ${holdMs} ms hold: ${((grants.length / tookMs) * 1_000).toFixed(0)} grants/s, p99 wait ${percentile(waitsMs, 0.99).toFixed(0)} ms, longest ${Math.max(...waitsMs).toFixed(0)} ms, ${(requests / grants.length).toFixed(2)} requests per grant`;
  }
}
