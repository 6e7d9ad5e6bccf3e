/** Builds the page into `web/page`: one script, one style, no request to any other host. Source: Vite, "Building for Production". */
import { defineConfig } from "vite";

// biome-ignore lint/style/noDefaultExport: Vite reads the default export
export default defineConfig({
  root: "app",
  base: "/console/",
  build: {
    outDir: "../page",
    emptyOutDir: true,
    target: ["chrome123", "edge123", "firefox120", "safari17.5"],
    modulePreload: false,
    license: { fileName: "licenses.md" },
  },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
});
