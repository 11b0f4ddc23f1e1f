/*
 * Programs of users that the matrix builds, compiles and runs: with which bundlers, frameworks, test tools and compilers.
 * The rest of the matrix is in matrix.ts.
 */

export interface BundlerRow {
  /** As docs/guide/bundlers.md names it. */
  readonly product: string;
  /** The one that gives the row its version first. */
  readonly packages: Readonly<Record<string, string>>;
  readonly files: readonly string[];
}

const bundler = (product: string, packages: BundlerRow["packages"], file = "bundlers"): BundlerRow => ({
  product,
  packages,
  files: [`test/bundlers/${file}.test.ts`],
});

/** What programs are built with. These are no dependencies of the project, so their versions stand here. */
export const BUNDLERS: Readonly<Record<string, BundlerRow>> = {
  next: bundler("Next.js", { next: "16.4.6", react: "19.3.1", "react-dom": "19.3.1" }, "next"),
  webpack: bundler("webpack", { webpack: "5.112.2", "webpack-cli": "7.3.1" }),
  rollup: bundler("Rollup", {
    rollup: "4.68.3",
    "@rollup/plugin-commonjs": "29.0.3",
    "@rollup/plugin-json": "6.1.0",
    "@rollup/plugin-node-resolve": "16.0.3",
  }),
  esbuild: bundler("esbuild", { esbuild: "0.28.2" }),
  rolldown: bundler("Rolldown", { rolldown: "1.3.2" }),
  vite: bundler("Vite", { vite: "8.3.8" }),
};

/** What a project of TypeScript has besides. */
const TYPED = { typescript: "5.9.3", "@types/node": "20.19.43" };

const framework = (product: string, packages: BundlerRow["packages"], file: string): BundlerRow => ({
  product,
  packages: { ...packages, ...TYPED },
  files: [`test/frameworks/${file}.test.ts`],
});

const nest = (version: string, schedule: string): BundlerRow =>
  framework(
    "NestJS",
    {
      "@nestjs/core": version,
      "@nestjs/common": version,
      "@nestjs/platform-express": version,
      "@nestjs/schedule": schedule,
      "reflect-metadata": "0.2.2",
      rxjs: "7.8.2",
    },
    "nestjs",
  );

/** What programs are made of that use locks. Each has a page in docs/guide, whose files the test compiles and runs. */
export const FRAMEWORKS: Readonly<Record<string, BundlerRow>> = {
  "nestjs-11": nest("11.2.10", "6.1.3"),
  nestjs: nest("12.5.1", "12.0.2"),
  nextjs: framework(
    "Next.js, in TypeScript",
    { next: "16.4.6", react: "19.3.1", "react-dom": "19.3.1", "@types/react": "19.3.0" },
    "nextjs",
  ),
  "cron-libraries": framework("croner, node-cron", { croner: "11.0.0", "node-cron": "4.6.0" }, "cron"),
  bullmq: framework("BullMQ", { bullmq: "6.7.0" }, "bullmq"),
};

/** What people test their own code with; docs/guide/testing.md says how. */
export const TEST_TOOLS: Readonly<Record<string, Omit<BundlerRow, "product">>> = {
  jest: {
    packages: {
      jest: "30.5.2",
      "ts-jest": "29.4.15",
      typescript: "5.9.3",
      "@swc/jest": "0.2.39",
      "@swc/core": "1.16.22",
      "@babel/core": "8.0.7",
      "@babel/preset-env": "8.0.7",
      "@babel/preset-typescript": "8.0.7",
      "@types/jest": "30.0.0",
      "@types/node": "20.19.43",
    },
    files: ["test/test-tools/jest.test.ts"],
  },
};

/**
 * Compilers of our users': the oldest that knows `await using`, the last before 6, and the newest two. Each with types
 * of Node.js that it can read: those of the oldest version that we run on, of the one after the next, and the newest.
 */
export const TYPESCRIPTS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "typescript-5.2": { typescript: "5.2.2", "@types/node": "20.19.30" },
  "typescript-5.9": { typescript: "5.9.3", "@types/node": "20.19.43" },
  "typescript-6": { typescript: "6.0.3", "@types/node": "24.19.2" },
  "typescript-7": { typescript: "7.0.2", "@types/node": "26.6.6" },
};
