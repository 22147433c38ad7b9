// Fails unless every package in the lock file has an accepted licence. `make audit` runs it; it
// needs neither the network nor the packages.
import { readFileSync } from "node:fs";

/** Licences that require no more than a notice. */
const ACCEPTED = new Set(["MIT", "Apache-2.0", "MIT OR Apache-2.0", "ISC", "BSD-3-Clause", "0BSD"]);
/** Licences accepted for packages that only build or test the page, by package. */
const FOR_BUILDING = new Map([
  ["axe-core", "MPL-2.0"], // Tests accessibility.
  ["lightningcss", "MPL-2.0"], // Minifies vite's style sheets.
]);

const { packages } = JSON.parse(
  readFileSync(new URL("package-lock.json", import.meta.url), "utf8"),
);
const accepted = (name, { license, dev }) =>
  ACCEPTED.has(license) ||
  (dev === true &&
    [...FOR_BUILDING].some(([known, its]) => name.startsWith(known) && license === its));
const refused = Object.entries(packages)
  .map(([path, entry]) => [path.replace(/^.*node_modules\//, "") || "the page", entry])
  .filter(([name, entry]) => !accepted(name, entry));
for (const [name, { license }] of refused) {
  console.error(
    `page: ${name} has the licence ${license ?? "nobody knows which"}, which is not accepted`,
  );
}
process.exit(refused.length > 0 ? 1 : 0);
