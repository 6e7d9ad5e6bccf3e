/** Checks of the client in Node, Deno and Bun: those of every runtime, gRPC, and shared memory. Ends with 1 when one fails. */
import process from "node:process";
import * as library from "@nereid/client";
import { portableChecks } from "./portable-checks.mjs";

const [http, grpc] = process.argv.slice(2).map((port) => `http://127.0.0.1:${port}`);
const { NereidClient, NereidGrpcClient, SystemMemory, tensor } = library;
const done = await portableChecks(library, { http });

function expect(what, isTrue) {
  if (!isTrue) throw new Error(`failed: ${what}`);
  done.push(what);
}

const overGrpc = new NereidGrpcClient({ url: grpc });
expect("gRPC health", (await overGrpc.isLive()) && !(await overGrpc.model("nope").isReady()));
const ones = new Int32Array(16).fill(1);
const inputs = [tensor("INPUT0", "INT32", [1, 16], ones), tensor("INPUT1", "INT32", [1, 16], ones)];
const sums = await overGrpc.model("simple").infer({ inputs });
expect("gRPC inference", sums.output("OUTPUT0", "INT32").data[0] === 2);
const large = new Float32Array(300_000).fill(3);
for (const compression of [undefined, "gzip"]) {
  const echo = await overGrpc.model("id_fp32").infer({ inputs: [tensor("IN", "FP32", [300_000], large)], compression });
  expect(`gRPC large tensors ${compression ?? ""}`, echo.output("OUT", "FP32").data[299_999] === 3);
}
const parts = [];
const values = [tensor("IN", "INT32", [2], Int32Array.of(7, 8))];
for await (const part of overGrpc.model("repeat").inferStream({ inputs: values })) {
  parts.push(part.output("OUT", "INT32").data[0]);
}
expect("gRPC streams", parts.join() === "7,8");
const error = await overGrpc
  .model("simple")
  .infer({ inputs: [] })
  .catch((thrown) => thrown);
expect("gRPC errors", error.grpcStatus === 3 && error.message.includes("expected 2 inputs"));
const slow = [tensor("INPUT0", "INT32", [1], Int32Array.of(1))];
const late = await overGrpc
  .model("slow")
  .infer({ inputs: slow, timeoutMs: 50 })
  .catch((thrown) => thrown);
expect("gRPC limits", late.kind === "timeout");
const client = new NereidClient({ url: http });
const name = `runtime_${process.pid}`;
const memory = new SystemMemory({ name, key: `/${name}`, byteSize: 256 });
await client.sharedMemory.registerSystem(memory.region);
const shared = [
  tensor("INPUT0", "INT32", [1, 16], memory.write("INT32", ones)),
  tensor("INPUT1", "INT32", [1, 16], memory.write("INT32", ones, 64)),
];
await client.model("simple").infer({ inputs: shared, outputs: [{ name: "OUTPUT0", memory: memory.part(64, 128) }] });
expect("shared memory", memory.read("INT32", 64, 128)[0] === 2);
await client.sharedMemory.unregister("system", { name });
memory.close();
client.close();
overGrpc.close();
// Deno 2.9 goes on after connections of node:http and node:http2 are closed.
process.stdout.write(`${JSON.stringify(done)}\n`, () => process.exit(0));
