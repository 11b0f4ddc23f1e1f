import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, type TestContext } from "vitest";
import type { Backend } from "#lib/core/backend.js";
import { request } from "./tested-database.js";

const run = promisify(execFile);

/** A disk of so many megabytes, which is gone when the test and the server on it have ended. */
export async function smallDisk(context: TestContext, megabytes: number): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "locktender-disk-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const size = `size=${megabytes}m,mode=0777`;
  const mounted = await run("mount", ["-t", "tmpfs", "-o", size, "tmpfs", folder]).then(
    () => true,
    () => false,
  );
  context.skip(!mounted, "mounting a small disk is not allowed here");
  onTestFinished(async () => {
    await run("umount", [folder]);
  });
  return folder;
}

/** A full disk is an error, never a grant; and what is held can still be given back. */
export async function staysRightWhenFull(one: Backend, folder: string): Promise<void> {
  const held = request("held");
  await one.claim(held);
  await writeFile(join(folder, "junk"), Buffer.alloc(4 << 20)).catch(() => undefined);
  let failure: unknown;
  const granted: string[] = [];
  for (let index = 0; failure === undefined && index < 5_000; index++) {
    const name = `new-${index}-${"x".repeat(200)}`;
    await one.claim(request(name)).then(
      () => granted.push(name),
      (error: unknown) => {
        failure = error;
      },
    );
  }
  expect(failure).toMatchObject({
    code: "backend",
    retryable: true,
    message: expect.stringMatching(/disk of the server.*full/),
  });
  const listed: string[] = [];
  for await (const { name } of one.list({ prefix: "new-" })) listed.push(name);
  expect(listed.sort()).toEqual(granted.sort());
  expect(await one.release(held)).toBe(true);
  await rm(join(folder, "junk"), { force: true });
  expect((await one.claim(request("held"))).state).toBe("granted");
}
