/** Recordings made now, by our own recorder: of hangs of the lab, and of real programs. */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { UNHITCH } from "./harness";
import { walks } from "./walk";

/** A thread that holds a lock while it sleeps, and three that wait for it. */
const PYTHON = `
import threading, time
lock = threading.Lock()
def work():
    with lock: time.sleep(0.2)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
`;
/** An event loop that is blocked while files wait to be read. */
const NODE = `
const fs = require("node:fs");
for (let i = 0; i < 50; i++) fs.readFile(process.execPath, () => {});
const end = Date.now() + 400;
setTimeout(() => { while (Date.now() < end); }, 10);
`;

/** The command that makes each recording, without where to write it. */
type Recordings = Readonly<Record<string, readonly [command: string, ...args: string[]]>>;

export const LAB: Recordings = Object.fromEntries(
  ["chain", "slow-disk", "stopped", "saturate", "tcp"].map((name) => [
    `${name}.hitch`,
    ["lab", name, "--record", "--seconds", "3"],
  ]),
);
export const PROGRAMS: Recordings = {
  "python.hitch": ["record", "--", "python3", "-c", PYTHON],
  "node.hitch": ["record", "--", process.execPath, "-e", NODE],
  "gzip.hitch": sh("find /usr/share -type f | head -5000 | sort | gzip > /dev/null"),
  "pipes.hitch": sh("seq 300000 | sort -rn | tail -1 > /dev/null"),
  "tar.hitch": sh("tar -cf - /usr/include | wc -c > /dev/null"),
};

function sh(line: string): Recordings[string] {
  return ["record", "--", "sh", "-c", line];
}

/** Makes all of them in `folder`, one after the other; says which could not be made. */
async function recordAll(folder: string, recordings: Recordings): Promise<void> {
  for (const [name, [command, ...args]] of Object.entries(recordings)) {
    const file = join(folder, name);
    const child = spawn(UNHITCH, [command, "-o", file, ...args], {
      stdio: ["ignore", "ignore", "pipe"],
    });
    let complaint = "";
    child.stderr.on("data", (text: Buffer) => (complaint += text.toString()));
    await new Promise((ended) => child.on("close", ended));
    if (!existsSync(file)) console.log(`SKIPPED walk through ${file}: ${complaint.split("\n")[0]}`);
  }
}

/** A walk through all views of each: all settle without an error on the console, and axe finds nothing. */
export function walkLive(title: string, recordings: Recordings): void {
  const names = Object.keys(recordings);
  walks(title, {
    fill: (folder) => recordAll(folder, recordings),
    recordings: names,
    isLookedAt: () => true,
    more: (begin, has) => {
      test("graphs over time have something to show", async ({ skip }) => {
        const made = names.find(has);
        if (made === undefined) return skip();
        const { page } = await begin(`trace=${made}&view=tables`);
        for (const preset of ["CPU over time", "Waits over time", "Run queue"]) {
          await page.getByRole("button", { name: preset, exact: true }).click();
          await page.waitForSelector(`.series[data-ready=true] svg path[d^="M"]`);
        }
      });

      test("five recordings are real", ({ skip }) => {
        const made = names.filter(has);
        // Nobody may record here, which `recordAll` has said.
        if (made.length === 0) skip();
        expect(made).toEqual(names);
        expect(names.length).toBeGreaterThanOrEqual(5);
      });
    },
  });
}
