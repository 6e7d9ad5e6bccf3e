// First steps of every program of the server. CommonJS, so that the size of libuv's pool is settled before anything uses it:
// runs of models wait there beside files and names.
"use strict";
const process = require("node:process");

/** The release of `engines` in package.json. */
const OLDEST = [20, 19];

/** Settings of the process, then the module that `load` imports, then `run` of it. */
module.exports = function start(name, load, run) {
  const [major, minor] = process.versions.node.split(".").map(Number);
  if (major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1])) {
    process.stderr.write(
      `${name}: needs Node.js 20.19 or later, got ${process.versions.node}; Node.js 24 is recommended\n`,
    );
    process.exitCode = 1;
    return;
  }
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
  void load().then(run, (error) => explain(name, error));
};

/** A checkout has no dist/ before its first build. */
function explain(name, error) {
  const { join, resolve } = require("node:path");
  if (require("node:fs").existsSync(join(__dirname, "../dist"))) throw error;
  process.stderr.write(`${name}: not built yet: run npm run build in ${resolve(__dirname, "../..")}\n`);
  process.exitCode = 1;
}
