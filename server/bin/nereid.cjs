#!/usr/bin/env node
// CommonJS, so that the size of libuv's pool is settled before anything uses it: runs of models wait there beside files and names.
"use strict";
process.env.UV_THREADPOOL_SIZE ??= String(Math.max(8, 2 * require("node:os").availableParallelism() + 4));
// ONNX Runtime would report to its makers.
process.env.ORT_DISABLE_TELEMETRY = "1";
void import("../dist/src/cli/nereid.js").then(({ main }) => main(process.argv.slice(2)));
