/**
 * `repeat`, decoupled: one response per element of IN (INT32 [n]), sent after DELAY[i] ms (UINT32 [n]); after the last one
 * the request is given free when WAIT ms (UINT32 [1]) are over. OUT is the element, IDX (UINT32) its index.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { Backend, BackendRequest } from "../backend.ts";
import { createTestBackend } from "./test-backend.ts";

export function createRepeatBackend(): Backend {
  return createTestBackend("repeat", (source) => {
    if (source.config.model_transaction_policy?.decoupled !== true) {
      const text = `model '${source.name}' of backend 'repeat' needs model_transaction_policy { decoupled: true }`;
      throw invalidArgument(text);
    }
    return {
      execute(request) {
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
    request.respond({
      outputs: [scalar("OUT", "INT32", input?.getInt32(4 * i, true) ?? 0), scalar("IDX", "UINT32", i)],
      final: false,
    });
    await request.drained();
  }
  if (signal.aborted) request.fail(new ServerError("cancelled", "request was cancelled by its client"));
  else request.respond({ outputs: [], final: true });
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
