import { defineConfig } from "vite";

// The names of the files have no hashes, because the server forbids caching. So a diff of dist
// shows what changed.
export default defineConfig({
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
  build: {
    target: "es2022",
    modulePreload: { polyfill: false },
    cssCodeSplit: false,
    reportCompressedSize: true,
    rollupOptions: {
      output: {
        entryFileNames: "page.js",
        assetFileNames: "page.[ext]",
      },
    },
  },
  // One worker: on a busy machine, each may take longer to start than vitest waits.
  test: { include: ["src/**/*.test.ts"], pool: "threads", maxWorkers: 1, isolate: false },
});
