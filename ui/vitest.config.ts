// Logic tests: none needs a browser.
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: { include: ["src/**/*.test.ts", "tests/*.test.ts"], environment: "node" },
});
