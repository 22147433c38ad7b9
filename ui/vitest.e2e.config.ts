// End to end: the real binary, a real browser, one file after the other on two cores. With UNHITCH_PICTURES set, takes the pictures of
// the documentation in the same way.
import { defineConfig } from "vitest/config";

const include = process.env.UNHITCH_PICTURES ? ["tests/pictures/*.pic.ts"] : ["tests/e2e/*.e2e.ts"];

export default defineConfig({ test: { include, environment: "node", fileParallelism: false, testTimeout: 90_000, hookTimeout: 120_000 } });
