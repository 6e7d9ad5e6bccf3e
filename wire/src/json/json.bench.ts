/** Prints what reading a request and writing numbers cost: run with `node --import tsx wire/src/json/json.bench.ts`. */

import { encodeUtf8 } from "../utf8.ts";
import { InferRequestReader } from "./infer-request.ts";
import { writeTensorData } from "./tensor-writer.ts";
import { JsonWriter } from "./writer.ts";

const LIMITS = { maxDepth: 100, maxItems: 65_536 };
const NUM_VALUES = 262_144;

function drain<T>(work: Generator<undefined, T>): T {
  let step = work.next();
  while (step.done !== true) step = work.next();
  return step.value;
}

/** Microseconds of one run, after a warm-up. */
function measure(name: string, numRuns: number, run: () => void): void {
  for (let i = 0; i < numRuns; i++) run();
  const startMs = performance.now();
  for (let i = 0; i < numRuns; i++) run();
  console.log(`${name}: ${(((performance.now() - startMs) * 1000) / numRuns).toFixed(2)} us`);
}

const sixteen = Array.from({ length: 16 }, (_, i) => i * 37);
const input = (name: string): object => ({ name, datatype: "INT32", shape: [1, 16], data: sixteen });
const simple = encodeUtf8(JSON.stringify({ inputs: [input("INPUT0"), input("INPUT1")] }));
const reader = new InferRequestReader(LIMITS);
const writer = new JsonWriter();
const integers = new Uint8Array(Int32Array.from(sixteen).buffer);

measure("read simple (two INT32[1,16])", 50_000, () => {
  drain(reader.read(simple));
});
measure("write two INT32[1,16]", 50_000, () => {
  writer.begin();
  drain(writeTensorData(writer, "INT32", integers, 16));
  drain(writeTensorData(writer, "INT32", integers, 16));
  writer.finish();
});

const floats = Float32Array.from({ length: NUM_VALUES }, () => Math.random() * 2 - 1);
const large = encodeUtf8(
  JSON.stringify({ inputs: [{ name: "X", datatype: "FP32", shape: [NUM_VALUES], data: [...floats] }] }),
);
measure("read FP32[262144]", 10, () => {
  drain(reader.read(large));
});
measure("write FP32[262144]", 10, () => {
  const own = new JsonWriter();
  own.begin();
  drain(writeTensorData(own, "FP32", new Uint8Array(floats.buffer), NUM_VALUES));
});
