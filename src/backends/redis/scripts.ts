import { makeScript } from "../../clients/redis/client.js";
import { lua } from "./lua.generated.js";

export const LUA = {
  claim: lua.draw + lua["claim-idle"] + lua.common + lua.claim,
  renew: lua.common + lua.renew,
  release: lua["release-only"] + lua.common + lua.release,
  list: lua.common + lua.list,
  cell: lua.draw + lua.cell,
};

export const SCRIPTS = {
  claim: makeScript(LUA.claim),
  renew: makeScript(LUA.renew),
  release: makeScript(LUA.release),
  list: makeScript(LUA.list),
  cell: makeScript(LUA.cell),
};
