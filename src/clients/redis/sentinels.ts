import { within } from "./errors.js";
import type { RedisAddress, RedisHost } from "./url.js";

/** A client of a sentinel, for one question. */
export interface SentinelClient {
  on(event: "error", listener: (error: Error) => void): unknown;
  connect(): Promise<unknown>;
  sendCommand(args: readonly string[]): Promise<unknown>;
  destroy(): void;
}

/**
 * Where the master is. All sentinels are asked at once, and the first answer counts: any of them may be down. As each
 * new connection asks again, it follows a failover.
 */
export async function masterOf(
  { hosts, master = "" }: RedisAddress,
  timeoutMs: number,
  clientAt: (host: RedisHost) => SentinelClient,
): Promise<RedisHost> {
  const ask = async (host: RedisHost): Promise<RedisHost> => {
    const client = clientAt(host);
    let trouble: Error | undefined;
    // Without a listener an "error" event would end the process; and what a command says tells less.
    client.on("error", (error) => {
      trouble ??= error;
    });
    try {
      await within(client.connect(), timeoutMs);
      const asked = client.sendCommand(["SENTINEL", "GET-MASTER-ADDR-BY-NAME", master]);
      const reply = await within(asked, timeoutMs);
      if (!Array.isArray(reply)) throw new Error(`the sentinel knows no master "${master}"`);
      return { host: String(reply[0]), port: Number(reply[1]) };
    } catch (error) {
      throw trouble ?? error;
    } finally {
      end(client);
    }
  };
  return Promise.any(hosts.map(ask));
}

function end(client: SentinelClient): void {
  try {
    client.destroy();
  } catch {
    // It was never connected, or is closed already.
  }
}
