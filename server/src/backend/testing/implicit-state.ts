/**
 * `implicit_state`: TEST_CASE (INT32 [1]) says how the request uses the state OUTPUT_STATE. Source: src/test/implicit_state of
 * Triton's server. 0: it sets a state that the configuration lacks; 1: OUTPUT is INPUT plus the state, which stays as it was;
 * 2: one buffer for both states, which stays as it was; 3: a state that grows, which is memory of a GPU.
 */
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { Backend, BackendRequest, ModelSource } from "../backend.ts";
import { tensorOf, viewOf } from "./control-values.ts";
import { createTestBackend } from "./test-backend.ts";

const UNDEFINED_STATE = "undefined_state";

export function createImplicitStateBackend(): Backend {
  return createTestBackend("implicit_state", (source) => ({
    execute: (request) => request.respond({ outputs: outputsOf(request, source), final: true }),
  }));
}

/** @throws ServerError for a state that cannot be */
function outputsOf(request: BackendRequest, source: ModelSource): readonly Tensor[] {
  const testCase = viewOf(tensorOf(request, "TEST_CASE")).getInt32(0, true);
  if (testCase === 0) throw noSuchState(source);
  if (testCase === 2) return [];
  if (testCase !== 1) throw new ServerError("unsupported", "a state that grows needs memory of a GPU");
  const input = tensorOf(request, "INPUT");
  const data = new Uint8Array(4);
  const state = viewOf(tensorOf(request, "INPUT_STATE")).getInt32(0, true);
  new DataView(data.buffer).setInt32(0, viewOf(input).getInt32(0, true) + state, true);
  return [{ name: "OUTPUT", datatype: "INT32", shape: input.shape, data }];
}

function noSuchState({ config }: ModelSource): ServerError {
  if ((config.sequence_batching?.state ?? []).length > 0) {
    return invalidArgument(`state '${UNDEFINED_STATE}' is not a valid state name.`);
  }
  const text = `unable to add state '${UNDEFINED_STATE}'. State configuration is missing for model '${config.name}'.`;
  return invalidArgument(text);
}
