/**
 * `iterative_sequence`, decoupled: INPUT (INT32 [1]) says how many responses come, one with each execution; OUTPUT counts
 * down to 0. Between two of them the request is given back, so that others run meanwhile. Needs the controls START and CORRID.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import { invalidArgument } from "../../core/server-error.ts";
import type { Backend, BackendRequest } from "../backend.ts";
import { correlationOf, expectAccumulator, filledOutput, inputSum, isSet } from "./control-values.ts";
import { createTestBackend } from "./test-backend.ts";

export function createIterativeSequenceBackend(): Backend {
  return createTestBackend("iterative_sequence", (source) => {
    expectAccumulator(source, "iterative_sequence", ["START", "CORRID"]);
    const { sequence_batching, model_transaction_policy } = source.config;
    if (sequence_batching?.iterative_sequence !== true || model_transaction_policy?.decoupled !== true) {
      const text = `model '${source.name}' of backend 'iterative_sequence' needs sequence_batching { iterative_sequence: true } and model_transaction_policy { decoupled: true }`;
      throw invalidArgument(text);
    }
    return {
      createExecute() {
        const left = new Map<bigint | string, number>();
        return (request) => step(request, left);
      },
    };
  });
}

/** `left`: how many responses are still to come, by sequence. */
async function step(request: BackendRequest, left: Map<bigint | string, number>): Promise<void> {
  const { key } = correlationOf(request);
  const before = isSet(request, "START") ? Math.max(0, inputSum(request)) : (left.get(key) ?? 0);
  const now = before - 1;
  if (now > 0 && !request.request.signal.aborted) {
    left.set(key, now);
    request.respond({ outputs: [filledOutput(request, now)], final: false });
    await nextTurn(); // a client may ask for very many: the others get their turns
    await request.drained();
    request.reschedule?.();
    return;
  }
  left.delete(key);
  request.respond({ outputs: now < 0 ? [] : [filledOutput(request, now)], final: true });
}
