import { describeHandOff } from "../contenders/group.mjs";

/** Two processes that take turns on Redis. Many processes on one key: npm run bench -- peers. */
export async function* measure({ url }) {
  yield describeHandOff(url, 1_000);
}
