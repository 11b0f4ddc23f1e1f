import { describe, expect, test } from "vitest";
import { absent } from "#lib/engine-kit/client-library.js";

const failed = (message: string, more: object = {}) => Object.assign(new Error(message), more);

/** As each of them was seen to say that `some-client`, or `@some/client`, is not there. */
const NOT_INSTALLED: Readonly<Record<string, (library: string) => Error>> = {
  "Node.js and Bun": (library) =>
    failed(`Cannot find package '${library}' imported from /app/node_modules/locktender/dist/a.js`, {
      code: "ERR_MODULE_NOT_FOUND",
    }),
  Deno: (library) =>
    failed(`Import "${library}" not a dependency\n    at file:///app/a.mjs:1:34\n`, {
      code: "ERR_MODULE_NOT_FOUND",
    }),
  "webpack and Turbopack": (library) =>
    failed(`Cannot find module '${library}'`, { code: "MODULE_NOT_FOUND" }),
  Vite: (library) => failed(`Could not resolve "${library}" imported by "locktender". Is it installed?`),
  "Yarn without node_modules": (library) =>
    failed(
      `locktender tried to access ${library} (a peer dependency) but it isn't provided by your application; this makes the require call ambiguous and unsound.\n\nRequired package: ${library} (via "${library}/package.json")`,
      { code: "MODULE_NOT_FOUND", pnpCode: "MISSING_PEER_DEPENDENCY", data: { dependencyName: library } },
    ),
};

describe.each(Object.entries(NOT_INSTALLED))("a library that is not there, as %s says it", (_, error) => {
  test.each(["some-client", "@some/client"])("%s is absent", (library) => {
    expect(absent(library, error(library))).toBeUndefined();
  });

  test("what the library itself needs is something else", () => {
    expect(() => absent("some-client", error("its-dependency"))).toThrow(/"some-client" is installed, but/);
  });
});

describe("a library that is there, and does not load", () => {
  test.each([
    failed("The module was compiled against a different Node.js version."),
    failed("Cannot find module '/app/node_modules/some-client/built/index.js'", { code: "MODULE_NOT_FOUND" }),
    failed("Cannot find module 'needed'\nRequire stack:\n- /app/node_modules/some-client/index.js", {
      code: "MODULE_NOT_FOUND",
    }),
    failed('Could not resolve "needed" imported by "some-client". Is it installed?'),
    failed('No "exports" main defined in /app/node_modules/some-client/package.json', {
      code: "ERR_PACKAGE_PATH_NOT_EXPORTED",
    }),
    "something that is no error",
    undefined,
  ])("%s", (thrown) => {
    let error: unknown;
    try {
      absent("some-client", thrown);
    } catch (caught) {
      error = caught;
    }
    expect(error).toMatchObject({ code: "unsupported", retryable: false, cause: thrown });
    expect(String(error)).toMatch(
      /^LockError: the package "some-client" is installed, but it cannot be loaded: /,
    );
    expect(String(error)).not.toMatch(/\p{Cc}/u);
  });
});
