/** The models of the benchmark, written to a folder: a perceptron with and without batching, three steps, sequences that add up. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { model, node, ONNX_TYPE, tensor } from "../../tests/fakes/onnx-writer.ts";

export const MLP_INPUTS = 128;
export const STEP_INPUTS = 16;
const HIDDEN = 512;
const CLASSES = 10;
const BATCH = 64;
const STEPS = ["first", "second", "third"];

export function writeModels(root: string): void {
  const mlp = perceptron();
  const io = `input [ { name: "x" data_type: TYPE_FP32 dims: [ ${MLP_INPUTS} ] } ] output [ { name: "y" data_type: TYPE_FP32 dims: [ ${CLASSES} ] } ]`;
  write(root, "mlp", onnx(io), mlp);
  write(root, "mlp_batched", onnx(io, "dynamic_batching { }"), mlp);
  const step = `input [ { name: "x" data_type: TYPE_FP32 dims: [ ${STEP_INPUTS} ] } ] output [ { name: "y" data_type: TYPE_FP32 dims: [ ${STEP_INPUTS} ] } ]`;
  for (const name of STEPS) write(root, name, onnx(step, "dynamic_batching { }"), layer(STEP_INPUTS));
  write(root, "three_steps", ensemble());
  const oldest = `oldest { max_candidate_sequences: 1024 preferred_batch_size: [ ${BATCH} ] }`;
  write(root, "sum_oldest", onnx(SUM_IO, sequences(oldest)), sum());
  write(root, "sum_direct", onnx(SUM_IO, sequences("direct { }"), 250, 4), sum());
  const same = `max_batch_size: ${BATCH} input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ ${STEP_INPUTS} ] } ] output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ ${STEP_INPUTS} ] } ]`;
  const code = "export const execute = ({ inputs: { INPUT0 } }) => ({ OUTPUT0: INPUT0.data });\n";
  write(root, "built_in", `backend: "identity" ${same} dynamic_batching { }\n`);
  write(root, "in_typescript", `backend: "typescript" ${same}\n`, code, "model.js");
  write(root, "in_typescript_batched", `backend: "typescript" ${same} dynamic_batching { }\n`, code, "model.js");
  const plain = `input [ { name: "x" data_type: TYPE_INT32 dims: [ 1 ] }, { name: "before" data_type: TYPE_INT32 dims: [ 1 ] } ] output [ { name: "y" data_type: TYPE_INT32 dims: [ 1 ] }, { name: "after" data_type: TYPE_INT32 dims: [ 1 ] } ]`;
  write(root, "sum_plain", onnx(plain, "dynamic_batching { }"), sum());
}

const SUM_IO =
  'input [ { name: "x" data_type: TYPE_INT32 dims: [ 1 ] } ] output [ { name: "y" data_type: TYPE_INT32 dims: [ 1 ] } ]';

function onnx(io: string, more = "", batch = BATCH, instances = 1): string {
  return `backend: "onnxruntime" max_batch_size: ${batch} ${io} instance_group [ { kind: KIND_CPU count: ${instances} } ] ${more}\n`;
}

function sequences(strategy: string): string {
  return `sequence_batching {
    max_sequence_idle_microseconds: 60000000
    state [ { input_name: "before" output_name: "after" data_type: TYPE_INT32 dims: [ 1 ] } ]
    ${strategy}
  }`;
}

function ensemble(): string {
  const tensors = ["IN", "one", "two", "OUT"];
  const steps = STEPS.map(
    (name, i) =>
      `{ model_name: "${name}" model_version: -1 input_map { key: "x" value: "${tensors[i]}" } output_map { key: "y" value: "${tensors[i + 1]}" } }`,
  );
  const io = (name: string): string => `[ { name: "${name}" data_type: TYPE_FP32 dims: [ ${STEP_INPUTS} ] } ]`;
  return `platform: "ensemble" max_batch_size: ${BATCH} input ${io("IN")} output ${io("OUT")} ensemble_scheduling { step [ ${steps.join(", ")} ] }\n`;
}

function write(root: string, name: string, config: string, content?: Uint8Array | string, file = "model.onnx"): void {
  mkdirSync(join(root, name, "1"), { recursive: true });
  writeFileSync(join(root, name, "config.pbtxt"), config);
  if (content !== undefined) writeFileSync(join(root, name, "1", file), content);
}

function perceptron(): Uint8Array {
  return model({
    nodes: [
      node("MatMul", ["x", "w1"], ["h1"]),
      node("Relu", ["h1"], ["a1"]),
      node("MatMul", ["a1", "w2"], ["h2"]),
      node("Relu", ["h2"], ["a2"]),
      node("MatMul", ["a2", "w3"], ["y"]),
    ],
    inputs: [["x", ONNX_TYPE.FLOAT, ["batch", MLP_INPUTS]]],
    outputs: [["y", ONNX_TYPE.FLOAT, ["batch", CLASSES]]],
    initializers: [weights("w1", MLP_INPUTS, HIDDEN), weights("w2", HIDDEN, HIDDEN), weights("w3", HIDDEN, CLASSES)],
  });
}

function layer(width: number): Uint8Array {
  return model({
    nodes: [node("MatMul", ["x", "w"], ["h"]), node("Relu", ["h"], ["y"])],
    inputs: [["x", ONNX_TYPE.FLOAT, ["batch", width]]],
    outputs: [["y", ONNX_TYPE.FLOAT, ["batch", width]]],
    initializers: [weights("w", width, width)],
  });
}

/** The state after a request is what it answers: the sum so far. */
function sum(): Uint8Array {
  const dims = ["batch", 1] as const;
  return model({
    nodes: [node("Add", ["x", "before"], ["y"]), node("Identity", ["y"], ["after"])],
    inputs: [
      ["x", ONNX_TYPE.INT32, dims],
      ["before", ONNX_TYPE.INT32, dims],
    ],
    outputs: [
      ["y", ONNX_TYPE.INT32, dims],
      ["after", ONNX_TYPE.INT32, dims],
    ],
  });
}

/** The same in every run, small enough that no layer runs away. */
function weights(name: string, rows: number, columns: number): Uint8Array {
  let state = rows * 31 + columns;
  const values = Float32Array.from({ length: rows * columns }, () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return (state / 2 ** 31 - 1) / Math.sqrt(rows);
  });
  return tensor(name, ONNX_TYPE.FLOAT, [rows, columns], new Uint8Array(values.buffer));
}
