#!/usr/bin/env node
// The server under the name that existing start scripts call: the flags begin at once, without a command in front.
"use strict";
process.env.UV_THREADPOOL_SIZE ??= String(Math.max(8, 2 * require("node:os").availableParallelism() + 4));
// Buffers of tensors freed on another thread go back to another arena of malloc, and each request faults its pages in anew:
// freed on this thread they are reused while warm. Halves the CPU of a 1 MB tensor (bench/results/serving.md).
require("node:v8").setFlagsFromString("--no-concurrent-array-buffer-sweeping");
// The heap is small and its limit follows it closely: a few megabytes of tensors count as growth, and the whole heap would be
// marked every nine of them. Up to three times of what is alive is what the engine itself allows when it has much to do.
require("node:v8").setFlagsFromString("--heap-growing-percent=200");
// Node 22.1 and later keep compiled modules between starts (NODE_COMPILE_CACHE says where, NODE_DISABLE_COMPILE_CACHE not at all).
require("node:module").enableCompileCache?.();
// ONNX Runtime would report to its makers.
process.env.ORT_DISABLE_TELEMETRY = "1";
void import("../dist/src/cli/serve.js").then(({ serve }) => serve(process.argv.slice(2), { hints: false }), explain);

/** A checkout has no dist/ before its first build. */
function explain(error) {
  const { join, resolve } = require("node:path");
  if (require("node:fs").existsSync(join(__dirname, "../dist"))) throw error;
  process.stderr.write(`tritonserver: not built yet: run npm run build in ${resolve(__dirname, "../..")}\n`);
  process.exitCode = 1;
}
