// A program that opens an engine by its URL. test/bundlers builds it with each bundler.
import { connect } from "locktender";
import { turn } from "./turn.mjs";

export async function main(url) {
  const seen = await turn(await connect(url));
  const refused = await connect("etcd://127.0.0.1:1").catch((error) => error);
  return { ...seen, refused: `${refused.code}: ${refused.message}` };
}
