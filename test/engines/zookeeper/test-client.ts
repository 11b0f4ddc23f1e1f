import { Client } from "#lib/backends/zookeeper/client.js";
import { unless } from "#lib/backends/zookeeper/errors.js";
import {
  type Acl,
  type Created,
  create,
  ERROR,
  getChildren,
  getData,
  multi,
  OPEN_ACL,
  remove,
} from "#lib/backends/zookeeper/messages.js";
import { readZooKeeperOptions } from "#lib/backends/zookeeper/options.js";

/** ZooKeeper's code for a node that has children. */
const NOT_EMPTY = -111;

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

  create(path: string, mode: number, acl: readonly Acl[] = OPEN_ACL, text = ""): Promise<Created> {
    return this.client.send(create(path, Buffer.from(text), acl, mode));
  }

  async remove(path: string): Promise<void> {
    await this.client.send(remove(path)).catch(unless(ERROR.noNode));
  }

  /**
   * All claims in one step, as no waiter may be let in by the first half of it. Names without claims are empty
   * containers, which the server removes itself, thousands of them one after the other: each is removed on its own,
   * since in one step with the claims one that is gone already would undo it all.
   */
  async removeAll(path: string): Promise<void> {
    let failures: readonly string[] = [];
    for (const untilMs = performance.now() + 10_000; performance.now() < untilMs; ) {
      const nodes = (await this.client.send(getChildren(path)).catch(unless(ERROR.noNode))) ?? [];
      const trees = await Promise.all(nodes.map((node) => this.#below(`${path}/${node}`)));
      const isEmptyName = (tree: readonly string[]) =>
        tree.length === 1 && tree[0]?.startsWith(`${path}/%`) === false;
      const paths = trees.filter((tree) => !isEmptyName(tree)).flat();
      const results = await this.client.send(multi(paths.map((path) => remove(path))));
      failures = results.flatMap(({ error }, at) => (error === 0 ? [] : `${paths[at]}: ${error}`));
      if (failures.length > 0) continue;
      const removeAlone = (path: string) =>
        this.client.send(remove(path)).catch(unless(ERROR.noNode, NOT_EMPTY));
      await Promise.all(trees.filter(isEmptyName).flat().map(removeAlone));
      await removeAlone(path);
      return;
    }
    throw new Error(`${path} changes too fast to be removed: ${failures.slice(0, 10).join(", ")}`);
  }

  /** With the deepest first. */
  async #below(path: string): Promise<string[]> {
    const nodes = await this.client.send(getChildren(path)).catch(unless(ERROR.noNode));
    if (nodes === undefined) return [];
    const below = await Promise.all(nodes.map((node) => this.#below(`${path}/${node}`)));
    return [...below.flat(), path];
  }

  close(): Promise<void> {
    return this.client.close(true);
  }
}
