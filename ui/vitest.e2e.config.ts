// End-to-end tests: the real binary and a real browser. Two files at a time: each has a server, a
// folder and a browser of its own, and waits most of the time.
// With UNHITCH_PICTURES set, takes the pictures for the documentation instead.
import { defineConfig } from "vitest/config";

const pictures = Boolean(process.env.UNHITCH_PICTURES);
const include = pictures ? ["tests/pictures/*.pic.ts"] : ["tests/e2e/*.e2e.ts"];

export default defineConfig({
  test: {
    include,
    environment: "node",
    maxWorkers: pictures ? 1 : 2,
    testTimeout: 90_000,
    hookTimeout: 120_000,
  },
});
