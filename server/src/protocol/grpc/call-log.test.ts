import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import {
  callUnary,
  encode,
  identity,
  inferRequest,
  openTestBed,
  STREAM_INFER,
  type TestBed,
} from "./test-peer.test-support.ts";

const HEALTH_CHECK = "grpc.health.v1.Health/Check";

function linesOf({ log }: TestBed, part: string): string[] {
  return log.lines.filter((line) => line.includes(part));
}

test("each call is a line of the log at its start and at its end", { timeout: 600_000 }, async (t) => {
  const bed = await openTestBed();
  t.after(() => bed.close());
  await callUnary(bed.client, "ServerLive", {});
  await callUnary(bed.client, "ServerLive", {});
  await callUnary(bed.client, "ModelInfer", inferRequest({ id: "7" }));
  await assert.rejects(callUnary(bed.client, "ModelInfer", inferRequest({ id: "8", model_name: "none" })));
  await callUnary(bed.client, HEALTH_CHECK, {});
  await assert.rejects(callUnary(bed.client, "LogSettings", { settings: { log_file: { string_param: "x" } } }));
  while (linesOf(bed, "Done").length < 6) await sleep(5);
  assert.deepEqual(linesOf(bed, "Process"), [
    "1 grpc_server: Process for ServerLive, rpc_ok=1, 0 step START",
    "1 grpc_server: Process for ServerLive, rpc_ok=1, 1 step START",
    "1 infer_handler: Process for ModelInferHandler, rpc_ok=1, 0 step START",
    "1 infer_handler: Process for ModelInferHandler, rpc_ok=1, 1 step START",
    "1 grpc_server: Process for Check, rpc_ok=1, 0 step START",
    "1 grpc_server: Process for Logging, rpc_ok=1, 0 step START",
  ]);
  assert.deepEqual(linesOf(bed, "Done").sort(), [
    "1 grpc_server: Done for Check, 0",
    "1 grpc_server: Done for Logging, 0",
    "1 grpc_server: Done for ServerLive, 0",
    "1 grpc_server: Done for ServerLive, 1",
    "1 infer_handler: Done for ModelInferHandler, 0",
    "1 infer_handler: Done for ModelInferHandler, 1",
  ]);
  assert.deepEqual(linesOf(bed, "Infer failed"), [
    "1 infer_handler: [request id: 8] Infer failed: Request for unknown model: 'none' is not found",
  ]);
});

test("each request of a stream is a line of the log", { timeout: 600_000 }, async (t) => {
  const bed = await openTestBed();
  t.after(() => bed.close());
  const stream = bed.client.makeBidiStreamRequest(STREAM_INFER, identity, identity);
  stream.on("data", () => undefined);
  stream.write(encode("inference.ModelInferRequest", inferRequest()));
  stream.write(encode("inference.ModelInferRequest", inferRequest({ model_name: "none" })));
  stream.end();
  await once(stream, "status");
  while (linesOf(bed, "Done").length < 1) await sleep(5);
  assert.deepEqual(linesOf(bed, "stream_infer_handler"), [
    "1 stream_infer_handler: Process for ModelStreamInferHandler, rpc_ok=1, context 0, 0 step START",
    "1 stream_infer_handler: Process for ModelStreamInferHandler, rpc_ok=1, context 0, 1 step READ",
    "1 stream_infer_handler: Process for ModelStreamInferHandler, rpc_ok=1, context 0, 2 step READ",
    "1 stream_infer_handler: [request id: <id_unknown>] Infer failed: Request for unknown model: 'none' is not found",
    "1 stream_infer_handler: Done for ModelStreamInferHandler, 0",
  ]);
});
