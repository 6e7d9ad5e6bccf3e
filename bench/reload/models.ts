/** The models of the benchmark: two that are reloaded, one small and one with many weights, and one beside them. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { model, node, ONNX_TYPE, tensor } from "../../tests/fakes/onnx-writer.ts";

export const INPUTS = 64;
const BYTES_PER_MEGABYTE = 1e6;
const FLOAT_BYTES = 4;

export function writeModels(root: string, megabytes: number): void {
  const width = Math.max(1, Math.round((megabytes * BYTES_PER_MEGABYTE) / (INPUTS * FLOAT_BYTES)));
  write(root, "small", 8);
  write(root, "beside", 8);
  write(root, "large", width);
}

function write(root: string, name: string, width: number): void {
  const io = `input [ { name: "x" data_type: TYPE_FP32 dims: [ ${INPUTS} ] } ] output [ { name: "y" data_type: TYPE_FP32 dims: [ ${INPUTS} ] } ]`;
  mkdirSync(join(root, name, "1"), { recursive: true });
  const config = `backend: "onnxruntime" max_batch_size: 8 ${io} instance_group [ { kind: KIND_CPU count: 1 } ] parameters { key: "intra_op_thread_count" value { string_value: "1" } }\n`;
  writeFileSync(join(root, name, "config.pbtxt"), config);
  writeFileSync(join(root, name, "1/model.onnx"), gathered(width));
}

/** Weights that are loaded and of which a request needs a row: it is the loads that differ, not the runs. */
function gathered(width: number): Uint8Array {
  const weights = new Float32Array(width * INPUTS).fill(0.5);
  const bytes = new Uint8Array(weights.buffer);
  return model({
    nodes: [node("Gather", ["w", "row"], ["picked"]), node("Add", ["x", "picked"], ["y"])],
    inputs: [["x", ONNX_TYPE.FLOAT, ["n", INPUTS]]],
    outputs: [["y", ONNX_TYPE.FLOAT, ["n", INPUTS]]],
    initializers: [
      tensor("w", ONNX_TYPE.FLOAT, [width, INPUTS], bytes),
      tensor("row", ONNX_TYPE.INT64, [1], new Uint8Array(new BigInt64Array([0n]).buffer)),
    ],
  });
}
