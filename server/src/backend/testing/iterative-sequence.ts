/**
 * `iterative_sequence`, decoupled: INPUT (INT32 [1]) says how many responses come, one with each execution; OUTPUT counts down to 0.
 * Between two of them the request is rescheduled, so that others run meanwhile. The controls START and CORRID are used where the
 * model declares them. Source: src/test/iterative_sequence of Triton's server.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import { invalidArgument, type ServerError } from "../../core/server-error.ts";
import type { Backend, BackendRequest } from "../backend.ts";
import { correlationOf, expectAccumulator, filledOutput, inputSum, isSet } from "./control-values.ts";
import { createTestBackend } from "./test-backend.ts";

/** A request of its sequence, by the controls or by what the scheduler knows. */
interface Step {
  readonly key: bigint | string;
  readonly isFirst: boolean;
}

export function createIterativeSequenceBackend(): Backend {
  return createTestBackend("iterative_sequence", (source) => {
    expectAccumulator(source, "iterative_sequence", []);
    const { sequence_batching, model_transaction_policy } = source.config;
    if (model_transaction_policy?.decoupled !== true) {
      const text = `model '${source.name}' of backend 'iterative_sequence' needs model_transaction_policy { decoupled: true }`;
      throw invalidArgument(text);
    }
    const controls = new Set(sequence_batching?.control_input.map(({ name }) => name));
    return {
      createExecute() {
        const left = new Map<bigint | string, number>();
        return (request) => answer(request, stepOf(request, controls), left);
      },
    };
  });
}

function stepOf(request: BackendRequest, controls: ReadonlySet<string>): Step {
  const { id, start } = request.request.sequence;
  return {
    key: controls.has("CORRID") ? correlationOf(request).key : id,
    isFirst: controls.has("START") ? isSet(request, "START") : start,
  };
}

/** `left`: how many responses are still to come, by sequence. */
async function answer(
  request: BackendRequest,
  { key, isFirst }: Step,
  left: Map<bigint | string, number>,
): Promise<void> {
  const known = isFirst ? undefined : left.get(key);
  const now = (known ?? Math.max(0, inputSum(request))) - 1;
  if (now > 0 && !request.request.signal.aborted) {
    if (request.reschedule === undefined) {
      request.fail(notRescheduled());
      return;
    }
    left.set(key, now);
    request.respond({ outputs: [filledOutput(request, now)], final: false });
    await nextTurn(); // a client may ask for very many: the others get their turns
    await request.drained();
    request.reschedule();
    return;
  }
  left.delete(key);
  request.respond({ outputs: now < 0 ? [] : [filledOutput(request, now)], final: true });
}

function notRescheduled(): ServerError {
  const text =
    "Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, while the model is not configured to handle such a flag.";
  return invalidArgument(text);
}
