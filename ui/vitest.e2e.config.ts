// End-to-end tests: the real binary and a real browser. Three files at a time on two CPUs: each has a
// server, a folder and a browser of its own, and waits half of the time.
// With UNHITCH_PICTURES set, takes the pictures for the documentation instead.
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** The files that take longest begin first, so that no worker is left with one of them. */
const LONGEST = [
  "menus.e2e.ts",
  "labWalk.e2e.ts",
  "programsWalk.e2e.ts",
  "walk.e2e.ts",
  "surfaces.e2e.ts",
  "access.e2e.ts",
];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification): number => {
      const at = LONGEST.findIndex((name) => moduleId.endsWith(`/${name}`));
      return at < 0 ? LONGEST.length : at;
    };
    return files.sort((one, other) => place(one) - place(other));
  }
}

const pictures = Boolean(process.env.UNHITCH_PICTURES);
const include = pictures ? ["tests/pictures/*.pic.ts"] : ["tests/e2e/*.e2e.ts"];

export default defineConfig({
  test: {
    include,
    environment: "node",
    // What a file starts is its own. Loading the same modules again costs more than a second of CPU.
    isolate: false,
    maxWorkers: pictures ? 1 : 3,
    sequence: { sequencer: LongestFirst },
    testTimeout: 90_000,
    // One second, else: less than a busy machine may take.
    expect: { poll: { timeout: 30_000 } },
    hookTimeout: 120_000,
  },
});
