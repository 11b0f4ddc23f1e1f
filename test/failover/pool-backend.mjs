// Opens locks over a pool of the caller's in a child process. In: the engine, the pool's URL and size, a prefix.
import { compiled } from "../support/compiled.mjs";

const POOLS = {
  postgres: async ({ url, max }) => {
    const { default: pg } = await import("pg");
    return new pg.Pool({ connectionString: url, max });
  },
  mysql: async ({ url, max }) => {
    const { createPool } = await import("mysql2/promise");
    return createPool({ uri: url, connectionLimit: max, charset: "utf8mb4" });
  },
};

export default async ({ engine, prefix, ...args }) => {
  const { [engine]: open } = await compiled(`backends/${engine}/index.js`);
  const pool = await POOLS[engine](args);
  pool.on("error", () => {});
  return open({ pool, prefix });
};
