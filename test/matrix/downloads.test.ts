import { execFile } from "node:child_process";
import { chmod, copyFile, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import { fileOf, fromVariable, installedIn } from "../servers/installed.js";
import { cached, cacheFolder } from "./cache.js";
import { versionIn } from "./debian.js";
import { wrapPrograms } from "./wrapped-programs.js";

const run = promisify(execFile);

async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "locktender-downloads-"));
  await chmod(folder, 0o755);
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

function withEnv(name: string, value: string): void {
  const before = process.env[name];
  onTestFinished(() => {
    if (before === undefined) delete process.env[name];
    else process.env[name] = before;
  });
  process.env[name] = value;
}

describe("the cache folder", () => {
  test("it is what LOCKTENDER_CACHE says, else where each user keeps such things", () => {
    expect(cacheFolder({ LOCKTENDER_CACHE: "/there", XDG_CACHE_HOME: "/x" }, 1000)).toBe("/there");
    expect(cacheFolder({ XDG_CACHE_HOME: "/x" }, 1000)).toBe("/x/locktender");
    expect(cacheFolder({}, 1000)).toMatch(/\/\.cache\/locktender$/);
    expect(cacheFolder({ XDG_CACHE_HOME: "/root/.cache" }, 0)).toBe("/var/cache/locktender");
  });

  test("a folder is made once, also by two at a time, and is there only when it is complete", async () => {
    const cache = await temporaryFolder();
    withEnv("LOCKTENDER_CACHE", cache);
    const make = (folder: string) => writeFile(join(folder, "file"), "");
    const [one, other] = await Promise.all([cached("sub/thing", make), cached("sub/thing", make)]);
    const again = await cached("sub/thing", () => Promise.reject(new Error("it is there")));
    expect([one, other, again]).toEqual(Array(3).fill(join(cache, "sub", "thing")));
    const half = cached("sub/half", async (folder) => {
      await make(folder);
      throw new Error("no network");
    });
    await expect(half).rejects.toThrow("no network");
    expect(await readdir(join(cache, "sub"))).toEqual(["thing"]);
  });
});

describe("packages of Debian", () => {
  test.each([
    [{ packages: ["redis-server"] }, "8.0.6"],
    [{ packages: ["postgresql"], versionOf: /^postgresql-\d+$/ }, "18.6"],
    [{ packages: ["mariadb-server-core"] }, "11.8.9"],
    [{ packages: ["absent"] }, ""],
  ])("the version of %j is %s", (wanted, version) => {
    const versions = [
      "mariadb-server-core\t1:11.8.9+ds-4",
      "postgresql\t18+293",
      "postgresql-18\t18.6-3",
      "redis-server\t5:8.0.6-3",
    ];
    expect(versionIn(`${versions.join("\n")}\n`, { suite: "sid", ...wanted })).toBe(version);
  });

  test.runIf(process.platform === "linux")(
    "unpacked programs run by their own loader, under their own names, and scripts stay as they are",
    async () => {
      const folder = await temporaryFolder();
      const bin = join(folder, "usr/bin");
      await mkdir(bin, { recursive: true });
      // A multi-call program: it does what its name says, as a link to it shows.
      await copyFile("/bin/sh", join(bin, "shell"));
      await symlink("shell", join(bin, "alias"));
      await symlink("/nowhere/else", join(bin, "broken"));
      await writeFile(join(bin, "script"), "#!/bin/sh\necho script\n", { mode: 0o755 });
      await copyLibraries(folder);
      await wrapPrograms(folder, folder);

      const who = (name: string) => run(join(bin, name), ["-c", "echo $0; tr '\\0' ' ' < /proc/$$/cmdline"]);
      for (const name of ["shell", "alias"]) {
        const { stdout } = await who(name);
        expect(stdout).toContain(join(bin, `${name}.real`));
        expect(stdout).toContain(`--library-path ${folder}`);
      }
      expect((await run(join(bin, "script"))).stdout).toBe("script\n");
      expect((await readdir(bin)).sort()).toEqual([
        "alias",
        "alias.real",
        "broken",
        "script",
        "shell",
        "shell.real",
      ]);
    },
  );
});

/** Those of this machine's shell, where a package would have put them. */
async function copyLibraries(folder: string): Promise<void> {
  const { stdout } = await run("ldd", ["/bin/sh"]);
  for (const [file] of stdout.matchAll(/\/\S+\.so[.\d]*/g)) {
    await mkdir(join(folder, file, ".."), { recursive: true });
    await copyFile(file, join(folder, file));
  }
}

describe("servers of another version", () => {
  test("an engine is the machine's own, unless the environment names a folder", async () => {
    withEnv(fromVariable("etcd"), "");
    expect(installedIn("etcd")).toBe("/");
    const folder = await temporaryFolder();
    withEnv("LOCKTENDER_TEST_ETCD_FROM", folder);
    await mkdir(join(folder, "bin"));
    await writeFile(join(folder, "bin/second"), "");
    expect(fileOf("etcd", "/bin/first", "/bin/second")).toBe(join(folder, "bin/second"));
    expect(() => fileOf("etcd", "/bin/third")).toThrow(`no ${folder}/bin/third`);
  });
});
