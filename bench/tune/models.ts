/** Three models whose best configuration is clear: one for batches, one for instances, one of ONNX that is bound by memory. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { model, node, ONNX_TYPE, tensor } from "../../tests/fakes/onnx-writer.ts";

export interface BenchModel {
  readonly name: string;
  /** Flags of the search: its space and its constraints. */
  readonly flags: readonly string[];
}

const WIDTH = 512;
const HIDDEN = 8192;
const IO = (dims: number): string =>
  `input [ { name: "x" data_type: TYPE_FP32 dims: [ ${dims} ] } ] output [ { name: "y" data_type: TYPE_FP32 dims: [ ${dims} ] } ]`;
/** Requests of one instance wait for each other: batches do not pay, instances do. */
const SERIAL = `let last: Promise<unknown> = Promise.resolve();
export function execute({ inputs: { x } }) {
  const answer = last.then(() => new Promise((resolve) => setTimeout(resolve, 25))).then(() => ({ y: x.data }));
  last = answer;
  return answer;
}
`;

export function writeModels(root: string): readonly BenchModel[] {
  const fault = IO(4).replaceAll('"x"', '"INPUT0"').replaceAll('"y"', '"OUTPUT0"');
  write(
    root,
    "batched",
    `backend: "fault" max_batch_size: 8 ${fault} parameters { key: "latency_ms" value { string_value: "25" } }`,
  );
  write(root, "serial", `backend: "typescript" max_batch_size: 8 ${IO(4)}`, "model.ts", SERIAL);
  write(
    root,
    "matrices",
    `backend: "onnxruntime" max_batch_size: 8 ${IO(WIDTH)} instance_group [ { kind: KIND_CPU } ]`,
    "model.onnx",
    matrices(),
  );
  const space = [
    "--run-config-search-max-instance-count=4",
    "--run-config-search-max-model-batch-size=8",
    "--queue-delays=0,2000",
  ];
  return [
    { name: "batched", flags: [...space, "--concurrency=1,2,4,8,16"] },
    { name: "serial", flags: [...space, "--concurrency=1,2,4,8,16", "--latency-budget=150"] },
    { name: "matrices", flags: [...space, "--concurrency=1,2,4,8,16"] },
  ];
}

function write(root: string, name: string, config: string, file?: string, content?: string | Uint8Array): void {
  mkdirSync(join(root, name, "1"), { recursive: true });
  writeFileSync(join(root, name, "config.pbtxt"), `${config}\n`);
  if (file !== undefined && content !== undefined) writeFileSync(join(root, name, "1", file), content);
}

/** Two products with 32 MB of weights: reading them costs more than a few further rows. */
function matrices(): Uint8Array {
  const weights = (rows: number, columns: number): Uint8Array =>
    new Uint8Array(new Float32Array(rows * columns).fill(0.01).buffer);
  return model({
    nodes: [node("MatMul", ["x", "up"], ["h"]), node("Relu", ["h"], ["r"]), node("MatMul", ["r", "down"], ["y"])],
    inputs: [["x", ONNX_TYPE.FLOAT, ["n", WIDTH]]],
    outputs: [["y", ONNX_TYPE.FLOAT, ["n", WIDTH]]],
    initializers: [
      tensor("up", ONNX_TYPE.FLOAT, [WIDTH, HIDDEN], weights(WIDTH, HIDDEN)),
      tensor("down", ONNX_TYPE.FLOAT, [HIDDEN, WIDTH], weights(HIDDEN, WIDTH)),
    ],
  });
}
