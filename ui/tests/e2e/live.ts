/** Recordings made now, by our own recorder: of hangs of the lab, and of real programs. */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { UNHITCH } from "./harness";

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

const LAB = ["chain", "slow-disk", "stopped", "saturate", "tcp"];
const PROGRAMS: Readonly<Record<string, readonly string[]>> = {
  python: ["python3", "-c", PYTHON],
  node: [process.execPath, "-e", NODE],
  gzip: ["sh", "-c", "find /usr/share -type f | head -5000 | sort | gzip > /dev/null"],
  pipes: ["sh", "-c", "seq 300000 | sort -rn | tail -1 > /dev/null"],
  tar: ["sh", "-c", "tar -cf - /usr/include | wc -c > /dev/null"],
};

export const LIVE: readonly string[] = [...LAB, ...Object.keys(PROGRAMS)].map(
  (name) => `${name}.hitch`,
);

async function record(file: string, args: readonly string[]): Promise<void> {
  const child = spawn(UNHITCH, args, { stdio: ["ignore", "ignore", "pipe"] });
  let complaint = "";
  child.stderr.on("data", (text: Buffer) => (complaint += text.toString()));
  await new Promise((ended) => child.on("close", ended));
  if (!existsSync(file)) console.log(`SKIPPED walk through ${file}: ${complaint.split("\n")[0]}`);
}

/** Makes all of them in `folder`, one after the other; says which could not be made. */
export async function recordLive(folder: string): Promise<void> {
  for (const name of LAB) {
    const file = join(folder, `${name}.hitch`);
    await record(file, ["lab", name, "--record", "--seconds", "3", "-o", file]);
  }
  for (const [name, command] of Object.entries(PROGRAMS)) {
    const file = join(folder, `${name}.hitch`);
    await record(file, ["record", "-o", file, "--", ...command]);
  }
}
