/** Rows of the benchmark: pairs of ways to do the same work, one of them the scheduler's. */
import type { HttpRequest } from "../serving/http-load.ts";
import type { Load } from "../serving/load.ts";
import { type BenchTensor, binaryRequest } from "../serving/messages.ts";
import { MLP_INPUTS, STEP_INPUTS } from "./models.ts";
import { type Script, startScriptLoad } from "./script-load.ts";

export interface Row {
  readonly name: string;
  /** Rows of a group do the same work. The first is what the others are compared with. */
  readonly group: string;
  readonly clients: number;
  start(port: number): Load;
}

const CLIENTS = 64;
const LIVE_SEQUENCES = 1000;
const SEQUENCE_LENGTH = 16;

export const ROWS: readonly Row[] = [
  row("MLP, every request alone", "mlp", () => repeat(mlpRequest("mlp"))),
  row("MLP, dynamic batching", "mlp", () => repeat(mlpRequest("mlp_batched"))),
  row("three calls of a client", "steps", () =>
    repeat(...["first", "second", "third"].map((name) => stepRequest(name, "x"))),
  ),
  row("an ensemble of three steps", "steps", () => repeat(stepRequest("three_steps", "IN"))),
  row("no sequence: the state travels with the request", "sequences", () => repeat(plainSum())),
  row("1,000 sequences, oldest", "sequences", () => sequenceScripts("sum_oldest")),
  row("1,000 sequences, direct, 4 instances of 250 slots", "sequences", () => sequenceScripts("sum_direct")),
  row("identity, built in", "typescript", () => repeat(stepRequest("built_in", "INPUT0"))),
  row("identity in TypeScript, every request alone", "typescript", () =>
    repeat(stepRequest("in_typescript", "INPUT0")),
  ),
  row("identity in TypeScript, dynamic batching", "typescript", () =>
    repeat(stepRequest("in_typescript_batched", "INPUT0")),
  ),
];

function row(name: string, group: string, scripts: () => Script[]): Row {
  return { name, group, clients: CLIENTS, start: (port) => startScriptLoad(port, scripts()) };
}

/** Every client sends these, which together are a unit. */
function repeat(...requests: HttpRequest[]): Script[] {
  return Array.from({ length: CLIENTS }, () => ({ requests, unit: requests.length }));
}

function mlpRequest(model: string): HttpRequest {
  return binaryRequest(model, [floats("x", MLP_INPUTS)]);
}

function stepRequest(model: string, input: string): HttpRequest {
  return binaryRequest(model, [floats(input, STEP_INPUTS)]);
}

function plainSum(): HttpRequest {
  return binaryRequest("sum_plain", [integer("x", 1), integer("before", 5)]);
}

/** Each client leads its share of the sequences side by side, a request of each in turn. */
function sequenceScripts(model: string): Script[] {
  return Array.from({ length: CLIENTS }, (_, client) => {
    const ids: number[] = [];
    for (let id = client; id < LIVE_SEQUENCES; id += CLIENTS) ids.push(id + 1);
    const requests = Array.from({ length: SEQUENCE_LENGTH }, (_, step) =>
      ids.map((id) =>
        binaryRequest(model, [integer("x", 1)], {
          sequence_id: id,
          sequence_start: step === 0,
          sequence_end: step === SEQUENCE_LENGTH - 1,
        }),
      ),
    );
    return { requests: requests.flat(), unit: 1 };
  });
}

function integer(name: string, value: number): BenchTensor {
  return { name, datatype: "INT32", shape: [1, 1], values: Int32Array.of(value) };
}

function floats(name: string, count: number): BenchTensor {
  return {
    name,
    datatype: "FP32",
    shape: [1, count],
    values: Float32Array.from({ length: count }, (_, i) => i / count),
  };
}
