import { Client } from "#lib/backends/zookeeper/client.js";
import { unless } from "#lib/backends/zookeeper/errors.js";
import { readZooKeeperOptions } from "#lib/backends/zookeeper/options.js";
import {
  type Created,
  create,
  ERROR,
  getChildren,
  getData,
  OPEN_ACL,
  remove,
} from "#lib/backends/zookeeper/protocol.js";

/** Looks at the tree, and meddles with it, beside the locks. */
export class TestClient {
  private constructor(private readonly client: Client) {}

  static async open(url: string, timeoutMs = 10_000): Promise<TestClient> {
    return new TestClient(await Client.open(readZooKeeperOptions({ url, timeout: "5s" }), timeoutMs));
  }

  async children(path: string): Promise<readonly string[]> {
    return (await this.client.send(getChildren(path)).catch(unless(ERROR.noNode))) ?? [];
  }

  async data(path: string): Promise<string | undefined> {
    return (await this.client.send(getData(path, false)).catch(unless(ERROR.noNode)))?.data.toString();
  }

  create(path: string, mode: number, data = ""): Promise<Created> {
    return this.client.send(create(path, Buffer.from(data), OPEN_ACL, mode));
  }

  async remove(path: string): Promise<void> {
    await this.client.send(remove(path)).catch(unless(ERROR.noNode));
  }

  async removeAll(path: string): Promise<void> {
    for (const child of await this.children(path)) await this.removeAll(`${path}/${child}`);
    // Somebody may have come meanwhile: then the rest stays.
    await this.remove(path).catch(() => undefined);
  }

  close(): Promise<void> {
    return this.client.close(true);
  }
}
