// What a lock can protect, for tests and for processes of their own: a database, a key, a service. Each writes one
// line behind a fence, and stops on request between the fence's look at the lease and the question to the resource.
import { Redis } from "ioredis";
import Database from "libsql";
import mysql from "mysql2/promise";
import pg from "pg";
import { compiled } from "../support/compiled.mjs";

const { fence, fencedFetch, fencedSet } = await compiled("fence/index.js");
const LINE = "paper";

const RESOURCES = {
  async postgres(url) {
    const client = new pg.Client(url);
    await client.connect();
    const ask = async (sql) => (await client.query(sql)).rows;
    return { ...database("postgres", ask), close: () => client.end() };
  },
  async mysql(url) {
    const connection = await mysql.createConnection(url);
    const ask = async (sql) => {
      const [rows] = await connection.query(sql);
      return Array.isArray(rows) ? rows : [];
    };
    return { ...database("mysql", ask), close: () => connection.end() };
  },
  async sqlite(file) {
    const db = new Database(file);
    const ask = async (sql) => {
      const statement = db.prepare(sql);
      return statement.reader ? statement.all() : statement.run() && [];
    };
    return { ...database("sqlite", ask), close: async () => db.close() };
  },
  async redis(url) {
    const client = new Redis(url);
    return {
      write: (lease, line, pause) => {
        const evalsha = async (...args) => {
          await pause();
          return client.evalsha(...args);
        };
        return fencedSet({ evalsha, eval: client.eval.bind(client) }, lease, lease.name, line);
      },
      read: (name) => client.get(name),
      close: async () => client.disconnect(),
    };
  },
  async http(url) {
    return {
      async write(lease, line, pause) {
        const later = async (...args) => {
          await pause();
          return fetch(...args);
        };
        const response = await fencedFetch(lease, later)(url, { method: "PUT", body: line });
        if (!response.ok) throw new Error(`status ${response.status}`);
      },
      read: async () => (await fetch(url)).text(),
      close: async () => {},
    };
  },
};

function database(dialect, ask) {
  return {
    async write(lease, line, pause) {
      const query = async (sql) => {
        await pause();
        return ask(sql);
      };
      await ask("BEGIN");
      try {
        await fence({ dialect, query }, lease);
        await ask(`UPDATE ${LINE} SET line = '${line}' WHERE name = '${lease.name}'`);
        await ask("COMMIT");
      } catch (error) {
        await ask("ROLLBACK");
        throw error;
      }
    },
    read: async (name) => (await ask(`SELECT line FROM ${LINE} WHERE name = '${name}'`))[0]?.line,
  };
}

export const open = (kind, url) => RESOURCES[kind](url);
