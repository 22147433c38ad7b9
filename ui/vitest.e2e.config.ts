// End-to-end tests: the real binary and a real browser. Two files at a time: each has a server, a
// folder and a browser of its own, and waits most of the time.
// With UNHITCH_PICTURES set, takes the pictures for the documentation instead.
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** The files that take longest begin first, so that neither worker is left with one of them. */
const LONGEST = ["walk.e2e.ts", "menus.e2e.ts", "surfaces.e2e.ts", "access.e2e.ts"];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification): number => {
      const at = LONGEST.findIndex((name) => moduleId.endsWith(name));
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
    maxWorkers: pictures ? 1 : 2,
    sequence: { sequencer: LongestFirst },
    testTimeout: 90_000,
    hookTimeout: 120_000,
  },
});
