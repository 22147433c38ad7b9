// End-to-end tests: the real binary and a real browser, one file at a time (two cores are enough).
// With UNHITCH_PICTURES set, takes the pictures for the documentation instead.
import { defineConfig } from "vitest/config";

const include = process.env.UNHITCH_PICTURES ? ["tests/pictures/*.pic.ts"] : ["tests/e2e/*.e2e.ts"];

export default defineConfig({
  test: {
    include,
    environment: "node",
    fileParallelism: false,
    testTimeout: 90_000,
    hookTimeout: 120_000,
  },
});
