// npm run release-check: what the owner still has to fill in before the package can be published.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const ADDRESSES = {
  repository: "where the source is",
  homepage: "the page about the package",
  bugs: "where people report a defect",
};

/** One line for each. */
export function missing({ manifest, changelog, readme, license }) {
  const lines = Object.entries(ADDRESSES)
    .filter(([field]) => manifest[field] === undefined)
    .map(([field, what]) => `package.json has no "${field}": ${what}. It has no address yet.`);
  if (manifest.author === undefined) lines.push('package.json has no "author".');
  const heading = changelog.match(/^## \[(.+?)\](.*)$/m);
  if (heading?.[1] !== manifest.version)
    lines.push(`CHANGELOG.md begins with ${heading?.[1]}, and package.json says ${manifest.version}.`);
  if (!/\d{4}-\d\d-\d\d/.test(heading?.[2] ?? "")) lines.push("CHANGELOG.md has no date for this version.");
  if (/not on npm yet/.test(readme)) lines.push('README.md says "The package is not on npm yet".');
  if (!/^Copyright \(c\) \d{4} \S/m.test(license)) lines.push("LICENSE names no owner.");
  return lines;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const read = (file) => readFileSync(new URL(`../${file}`, import.meta.url), "utf8");
  const lines = missing({
    manifest: JSON.parse(read("package.json")),
    changelog: read("CHANGELOG.md"),
    readme: read("README.md"),
    license: read("LICENSE"),
  });
  for (const line of lines) console.log(`- ${line}`);
  console.log(lines.length === 0 ? "Nothing is missing." : `${lines.length} things are missing.`);
  process.exitCode = lines.length === 0 ? 0 : 1;
}
