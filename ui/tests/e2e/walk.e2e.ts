/**
 * A walk through all views with many files: synthetic ones, other tools', and those of Windows that
 * have no lanes, no stalls or no time at all. Every view settles without an error on the console; in
 * all views of one of each kind, axe finds nothing.
 *
 * With `UNHITCH_CORPUS`, the real traces of other systems in that folder are walked through, too.
 */
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, readdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { test } from "vitest";
import { REPORT } from "../fixtures/fleet";
import { STARVE, UNHITCH, writeGolden } from "./harness";
import { walks } from "./walk";

const GOLDEN = ["type-an-email", "move-my-mouse", "sixty-three-cores"];
/** Recordings as the files of other tools, by the format to export to. */
const EXPORTS = [
  { from: "starve.hitch", to: "perf.data", file: "starve.data" },
  { from: "starve.hitch", to: "perfetto", file: "starve.perfetto-trace" },
  { from: "move-my-mouse.hitch", to: "perfetto", file: "move-my-mouse.perfetto-trace" },
] as const;

/** The traces in the folder of real ones. */
function corpus(): string[] {
  const root = process.env.UNHITCH_CORPUS;
  if (!root) return [];
  return readdirSync(root, { recursive: true, encoding: "utf8" })
    .filter((name) => /\.(etl|etl\.zip|hitch|data|perfetto-trace)$/.test(name))
    .map((name) => join(root, name))
    .sort();
}

const REAL = corpus();
const RECORDINGS = [
  basename(STARVE),
  ...GOLDEN.flatMap((name) => [`${name}.hitch`, `${name}.etl`]),
  ...EXPORTS.map(({ file }) => file),
  ...REAL.map((path) => basename(path)),
];

/** Those whose views axe looks at: other files have the same views of the same data, or no data. */
const LOOKED_AT: ReadonlySet<string> = new Set([
  basename(STARVE),
  "type-an-email.etl",
  "starve.perfetto-trace",
  "HTTP_Server.etl",
]);

async function fill(folder: string): Promise<void> {
  await writeGolden(folder);
  for (const file of [STARVE, ...REAL]) cpSync(file, join(folder, basename(file)));
  for (const { from, to, file } of EXPORTS) {
    const args = ["export", "--to", to, "-o", join(folder, file), join(folder, from)];
    const { status, stderr } = spawnSync(UNHITCH, args, { encoding: "utf8" });
    if (status !== 0 || !existsSync(join(folder, file))) throw new Error(`${file}: ${stderr}`);
  }
  writeFileSync(join(folder, "report.json"), JSON.stringify(REPORT));
}

walks("walk", {
  fill,
  options: (folder) => ["--fleet", join(folder, "report.json")],
  recordings: RECORDINGS,
  isLookedAt: (name) => LOOKED_AT.has(name),
  more: (begin) => {
    test("the folder with the report over a fleet", async () => {
      const walk = await begin("");
      await walk.page.waitForSelector(".fleet[data-ready=true]");
      await walk.look("the folder");
      walk.end();
    });

    test("two traces side by side", async () => {
      const query = `before=${basename(STARVE)}&after=type-an-email.hitch`;
      const walk = await begin(query);
      await walk.page.getByRole("heading", { name: "What differs" }).waitFor();
      await walk.look("what differs");
      for (const button of ["Wakes", "Samples", "Widths of before", "Whole recordings"]) {
        await walk.press(button);
        await walk.look(`what differs, ${button}`);
      }
      walk.end();
    });
  },
});
