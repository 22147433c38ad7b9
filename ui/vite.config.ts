// Builds the page into dist/, which the binary embeds. No source maps and no inlined assets: the
// page's content security policy allows neither `data:` URLs nor inline scripts.
import { defineConfig } from "vite";

export default defineConfig({
  base: "./",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    sourcemap: false,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
  // `UNHITCH_ADDRESS=http://127.0.0.1:PORT npm run dev` uses a running server's API.
  server: {
    proxy: process.env.UNHITCH_ADDRESS ? { "/api": process.env.UNHITCH_ADDRESS } : undefined,
  },
});
