import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Metadata } from "@grpc/grpc-js";
import type { RequestTrace } from "../../core/request-trace.ts";
import {
  callUnary,
  encode,
  identity,
  inferRequest,
  int32Bytes,
  openTestBed,
  STREAM_INFER,
  type TestBed,
} from "./test-peer.test-support.ts";

const UNARY_MOMENTS = ["GRPC_WAITREAD_START", "GRPC_WAITREAD_END", "GRPC_SEND_START", "GRPC_SEND_END", "end"];

/** Samples every request, and notes what happens to its trace. */
function traceAll(bed: TestBed, parents: (string | undefined)[] = []): string[][] {
  const traces: string[][] = [];
  bed.server.tracing = {
    isOn: true,
    start(_, headers) {
      parents.push(headers.header("traceparent"));
      const notes: string[] = [];
      traces.push(notes);
      const trace: RequestTrace = {
        mark: (moment) => void notes.push(moment),
        tensors: () => undefined,
        begin: () => undefined,
        end: () => void notes.push("end"),
        child: () => trace,
        context: undefined,
      };
      return trace;
    },
  };
  return traces;
}

async function untilEnded(traces: readonly string[][], count: number): Promise<void> {
  while (traces.filter((notes) => notes.includes("end")).length < count) await sleep(5);
}

test("ModelInfer traces a request from its message to the end of the call", { timeout: 600_000 }, async (t) => {
  const bed = await openTestBed();
  t.after(() => bed.close());
  const parents: (string | undefined)[] = [];
  const traces = traceAll(bed, parents);
  const metadata = new Metadata();
  metadata.set("traceparent", "00-1-2-01");
  await callUnary(bed.client, "ModelInfer", inferRequest(), { metadata });
  await untilEnded(traces, 1);
  assert.deepEqual(traces, [UNARY_MOMENTS]);
  assert.deepEqual(parents, ["00-1-2-01"]);
  assert.notEqual(bed.server.seen[0]?.trace, undefined);
});

test("ModelInfer ends the trace of a request that fails", { timeout: 600_000 }, async (t) => {
  const bed = await openTestBed();
  t.after(() => bed.close());
  const traces = traceAll(bed);
  await assert.rejects(callUnary(bed.client, "ModelInfer", inferRequest({ model_name: "broken" })));
  await untilEnded(traces, 1);
  assert.deepEqual(traces, [["GRPC_WAITREAD_START", "GRPC_WAITREAD_END", "GRPC_SEND_END", "end"]]);
});

test("ModelStreamInfer traces each of its requests, and each answer of one", { timeout: 600_000 }, async (t) => {
  const bed = await openTestBed();
  t.after(() => bed.close());
  const traces = traceAll(bed);
  const stream = bed.client.makeBidiStreamRequest(STREAM_INFER, identity, identity);
  stream.resume();
  const inputs = [{ name: "IN", datatype: "INT32", shape: [2] }];
  const repeat = { model_name: "repeat", inputs, raw_input_contents: [int32Bytes([7, 8])] };
  stream.write(encode("inference.ModelInferRequest", inferRequest()));
  stream.write(encode("inference.ModelInferRequest", repeat));
  stream.write(encode("inference.ModelInferRequest", { model_name: "nope" }));
  stream.end();
  await untilEnded(traces, 2);
  assert.deepEqual(traces[0], UNARY_MOMENTS);
  assert.deepEqual(
    traces[1]?.filter((note) => note === "GRPC_SEND_START" || note === "end"),
    ["GRPC_SEND_START", "GRPC_SEND_START", "end"],
  );
  assert.equal(traces.length, 2);
});
