/**
 * `square`, decoupled: for IN = n (INT32 [1]) it answers n times OUT = n. Parameters of the model, and the statistics of
 * each response, are those of Triton's square backend.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import type { Backend, BackendRequest, ResponseReport } from "../backend.ts";
import { createTestBackend, numberParameter } from "./test-backend.ts";

const NS_PER_MS = 1e6;

interface SquareSettings {
  readonly inferMs: number;
  readonly outputMs: number;
  readonly cancelMs: number;
  /** The last `empty` of the n responses are left out, and the `fail` before them are errors. */
  readonly fail: number;
  readonly empty: number;
}

export function createSquareBackend(): Backend {
  return createTestBackend("square", (source) => {
    if (source.config.model_transaction_policy?.decoupled !== true) {
      const text = `model '${source.name}' of backend 'square' needs model_transaction_policy { decoupled: true }`;
      throw invalidArgument(text);
    }
    const settings: SquareSettings = {
      inferMs: numberParameter(source, "CUSTOM_INFER_DELAY_NS", 0) / NS_PER_MS,
      outputMs: numberParameter(source, "CUSTOM_OUTPUT_DELAY_NS", 0) / NS_PER_MS,
      cancelMs: numberParameter(source, "CUSTOM_CANCEL_DELAY_NS", 0) / NS_PER_MS,
      fail: numberParameter(source, "CUSTOM_FAIL_COUNT", 0),
      empty: numberParameter(source, "CUSTOM_EMPTY_COUNT", 0),
    };
    return {
      execute(request) {
        void answer(request, settings);
      },
    };
  });
}

async function answer(request: BackendRequest, settings: SquareSettings): Promise<void> {
  const [input] = request.request.inputs;
  if (input === undefined || input.data.byteLength < 4) {
    request.fail(invalidArgument("backend 'square' expects one INT32 element in IN"));
    return;
  }
  const count = new DataView(input.data.buffer, input.data.byteOffset).getInt32(0, true);
  for (let i = 0; i < count; i += 1) {
    const outcome = await respond(request, i, count, settings);
    if (outcome === "cancel") {
      request.fail(new ServerError("cancelled", "request was cancelled by its client"));
      return;
    }
    await request.drained();
  }
  request.respond({ outputs: [], final: true });
}

/** One of `count` responses, with what it reports. */
async function respond(
  request: BackendRequest,
  at: number,
  count: number,
  { inferMs, outputMs, cancelMs, fail, empty }: SquareSettings,
): Promise<ResponseReport["outcome"]> {
  const startMs = performance.now();
  const report = (outcome: ResponseReport["outcome"], outputStartMs?: number): ResponseReport["outcome"] => {
    request.reportResponse?.({ startMs, outputStartMs, endMs: performance.now(), outcome });
    return outcome;
  };
  if (request.request.signal.aborted) {
    await pause(cancelMs);
    return report("cancel");
  }
  await pause(inferMs);
  if (at + empty >= count) return report("empty_response");
  const outputStartMs = performance.now();
  await pause(outputMs);
  const outputs = request.request.inputs.map((input) => ({ ...input, name: "OUT" }));
  if (at + fail + empty < count) {
    request.respond({ outputs, final: false });
    return report("success", outputStartMs);
  }
  request.respond({ outputs: [], error: new ServerError("unknown", "simulated failure"), final: false });
  return report("fail", outputStartMs);
}

async function pause(ms: number): Promise<void> {
  if (ms > 0) await sleep(ms);
}
