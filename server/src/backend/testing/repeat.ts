/**
 * `repeat`: one response per element of IN (INT32 [n]), sent after DELAY[i] ms (UINT32 [n]); after the last one the request is
 * given free when WAIT ms (UINT32 [1]) are over. OUT is the element, IDX (UINT32) its index. A model that is not decoupled must
 * be asked for one response.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { Backend, BackendRequest } from "../backend.ts";
import { createTestBackend } from "./test-backend.ts";

export function createRepeatBackend(): Backend {
  return createTestBackend("repeat", (source) => {
    const isDecoupled = source.config.model_transaction_policy?.decoupled === true;
    return {
      execute(request) {
        if (!isDecoupled) return answerOnce(request);
        void answer(request);
        const waitMs = words(request, "WAIT")?.getUint32(0, true) ?? 0;
        return waitMs > 0 ? sleep(waitMs) : undefined;
      },
    };
  });
}

async function answer(request: BackendRequest): Promise<void> {
  const input = words(request, "IN");
  const delays = words(request, "DELAY");
  const { signal } = request.request;
  const count = input === undefined ? 0 : input.byteLength / 4;
  for (let i = 0; i < count && !signal.aborted; i += 1) {
    const delayMs = delays === undefined || delays.byteLength < 4 * (i + 1) ? 0 : delays.getUint32(4 * i, true);
    if (delayMs > 0) await sleep(delayMs, undefined, { signal }).catch(() => undefined);
    request.respond({ outputs: outputsOf(input, i), final: false });
    await request.drained();
  }
  if (signal.aborted) request.fail(new ServerError("cancelled", "request was cancelled by its client"));
  else request.respond({ outputs: [], final: true });
}

/** The only response of a model that is not decoupled. */
async function answerOnce(request: BackendRequest): Promise<void> {
  const input = words(request, "IN");
  const count = input === undefined ? 0 : input.byteLength / 4;
  if (count !== 1) {
    const text = `expected a single response, got ${count}: IN of a model of backend 'repeat' that is not decoupled must have one element`;
    request.fail(invalidArgument(text));
    return;
  }
  const delayMs = words(request, "DELAY")?.getUint32(0, true) ?? 0;
  const waitMs = words(request, "WAIT")?.getUint32(0, true) ?? 0;
  if (delayMs > 0) await sleep(delayMs);
  request.respond({ outputs: outputsOf(input, 0), final: true });
  if (waitMs > 0) await sleep(waitMs);
}

function outputsOf(input: DataView | undefined, index: number): readonly Tensor[] {
  return [scalar("OUT", "INT32", input?.getInt32(4 * index, true) ?? 0), scalar("IDX", "UINT32", index)];
}

function words(request: BackendRequest, name: string): DataView | undefined {
  const tensor = request.request.inputs.find((input) => input.name === name);
  if (tensor === undefined) return undefined;
  return new DataView(tensor.data.buffer, tensor.data.byteOffset, tensor.data.byteLength);
}

function scalar(name: string, datatype: "INT32" | "UINT32", value: number): Tensor {
  const data = new Uint8Array(4);
  new DataView(data.buffer).setInt32(0, value, true);
  return { name, datatype, shape: [1], data };
}
