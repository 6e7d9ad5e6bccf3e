/** The ONNX models that are run on a GPU and beside it on the CPU: where their files come from, and what they are given. */
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { model, node, ONNX_TYPE, tensor } from "../../tests/fakes/onnx-writer.ts";
import type { BenchTensor } from "../serving/messages.ts";
import { newRepository } from "./served-repository.ts";

/** Each model is served once for each. On a GPU GEMMs round their inputs to TF32 by default. */
export const PLACES = {
  cpu: "instance_group [ { count: 1, kind: KIND_CPU } ]",
  gpu: "instance_group [ { count: 1, kind: KIND_GPU, gpus: [ 0 ] } ]",
  gpu_f32: `instance_group [ { count: 1, kind: KIND_GPU, gpus: [ 0 ] } ]
optimization { execution_accelerators { gpu_execution_accelerator: [
  { name: "cuda" parameters { key: "use_tf32" value: "0" } } ] } }`,
  gpu_of_3: "instance_group [ { count: 3, kind: KIND_GPU, gpus: [ 0 ] } ]",
} as const;

export type Place = keyof typeof PLACES;

interface OnnxModel {
  readonly config: (examples: string) => string;
  readonly write: (examples: string, path: string) => void;
  readonly inputs: (rows: number) => readonly BenchTensor[];
}

const NUM_LAYERS = 8;
const WIDTH = 1024;
const TOKENS = 12;
const PIXELS = 3 * 64 * 64;

export const MODELS: Readonly<Record<string, OnnxModel>> = {
  simple: {
    config: (examples) => exampleConfig(examples, "simple"),
    write: (examples, path) => copyFileSync(join(examples, "model_repository/simple/1/model.onnx"), path),
    inputs: (rows) => [integers("INPUT0", [rows, 16], (i) => i), integers("INPUT1", [rows, 16], (i) => i % 7)],
  },
  layers: {
    config: () => `backend: "onnxruntime" max_batch_size: 256 dynamic_batching { }
input [ { name: "IN" data_type: TYPE_FP32 dims: [ ${WIDTH} ] } ] output [ { name: "OUT" data_type: TYPE_FP32 dims: [ ${WIDTH} ] } ]`,
    write: (_examples, path) => writeFileSync(path, layers()),
    inputs: (rows) => [floats("IN", [rows, WIDTH], (i) => Math.sin(i))],
  },
  text_encoder: {
    config: (examples) => exampleConfig(examples, "text_encoder"),
    write: (examples, path) => copyFileSync(join(examples, "nereid-tiny/onnx/text_encoder.onnx"), path),
    inputs: (rows) => [
      longs("input_ids", [rows, TOKENS], (i) => 5 + ((i * 37) % 900)),
      longs("attention_mask", [rows, TOKENS], (i) => (i % TOKENS < 9 ? 1 : 0)),
    ],
  },
  vision_encoder: {
    config: (examples) => exampleConfig(examples, "vision_encoder"),
    write: (examples, path) => copyFileSync(join(examples, "nereid-tiny/onnx/vision_encoder.onnx"), path),
    inputs: (rows) => [floats("pixel_values", [rows, 3, 64, 64], (i) => Math.sin(i % PIXELS) / 2)],
  },
};

/** The models named, each as `<name>_<place>`; `more` goes into their configurations. */
export function writeModels(
  root: string,
  examples: string,
  names: readonly string[],
  places: readonly Place[],
  more = "",
): void {
  const put = newRepository(root);
  for (const name of names) {
    for (const place of places) {
      const served = `${name}_${place}`;
      put(
        `${served}/config.pbtxt`,
        `name: "${served}"\n${MODELS[name]?.config(examples)}\n${PLACES[place]}\n${more}\n`,
      );
      mkdirSync(join(root, served, "1"));
      MODELS[name]?.write(examples, join(root, served, "1/model.onnx"));
    }
  }
}

function exampleConfig(examples: string, name: string): string {
  return readFileSync(join(examples, "model_repository", name, "config.pbtxt"), "utf8")
    .replace(`name: "${name}"\n`, "")
    .replace(/instance_group \[[^\]]*\]/, "");
}

/** OUT = the last of h(i+1) = tanh(h(i) W(i) + b(i)), h(0) = IN. */
function layers(): Uint8Array {
  const { FLOAT } = ONNX_TYPE;
  const numbers = Array.from({ length: NUM_LAYERS }, (_, i) => i);
  return model({
    nodes: numbers.flatMap((i) => [
      node("MatMul", [i === 0 ? "IN" : `h${i}`, `W${i}`], [`m${i}`]),
      node("Add", [`m${i}`, `b${i}`], [`a${i}`]),
      node("Tanh", [`a${i}`], [i === NUM_LAYERS - 1 ? "OUT" : `h${i + 1}`]),
    ]),
    inputs: [["IN", FLOAT, ["rows", WIDTH]]],
    outputs: [["OUT", FLOAT, ["rows", WIDTH]]],
    initializers: numbers.flatMap((i) => [
      tensor(`W${i}`, FLOAT, [WIDTH, WIDTH], noise(i + 1, WIDTH * WIDTH, 2 / Math.sqrt(WIDTH))),
      tensor(`b${i}`, FLOAT, [WIDTH], noise(i + 101, WIDTH, 0.1)),
    ]),
  });
}

/** Evenly between -scale and scale, the same for a seed. */
function noise(seed: number, count: number, scale: number): Uint8Array {
  const values = new Float32Array(count);
  let state = seed;
  for (let i = 0; i < count; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    values[i] = scale * (state / 2 ** 31 - 1);
  }
  return new Uint8Array(values.buffer);
}

type ValueAt = (i: number) => number;

function integers(name: string, shape: readonly number[], valueAt: ValueAt): BenchTensor {
  return { name, datatype: "INT32", shape, values: Int32Array.from({ length: sizeOf(shape) }, (_, i) => valueAt(i)) };
}

function longs(name: string, shape: readonly number[], valueAt: ValueAt): BenchTensor {
  const values = BigInt64Array.from({ length: sizeOf(shape) }, (_, i) => BigInt(valueAt(i)));
  return { name, datatype: "INT64", shape, values };
}

function floats(name: string, shape: readonly number[], valueAt: ValueAt): BenchTensor {
  return { name, datatype: "FP32", shape, values: Float32Array.from({ length: sizeOf(shape) }, (_, i) => valueAt(i)) };
}

function sizeOf(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}
