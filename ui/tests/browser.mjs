/** Where the tests and the measurements find the browser. */
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";

/** The one without windows of its own comes first: it needs two thirds of the CPU time. */
const NAMES = [
  "chromium-headless-shell",
  "chromium",
  "chromium-browser",
  "google-chrome",
  "chrome",
];

/**
 * The program: `CHROMIUM` if it is set, else the first one in `PATH`.
 *
 * @returns {string | null} `null` if there is none.
 */
export function browserPath() {
  const folders = (process.env.PATH ?? "").split(delimiter);
  const candidates = [
    process.env.CHROMIUM,
    ...NAMES.flatMap((name) => folders.map((folder) => join(folder, name))),
  ];
  return candidates.find((path) => path !== undefined && existsSync(path)) ?? null;
}
