/** `square`, decoupled: for IN = n (INT32 [1]) it answers n times OUT = n. */
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import type { Backend, BackendRequest } from "../backend.ts";
import { createTestBackend } from "./test-backend.ts";

export function createSquareBackend(): Backend {
  return createTestBackend("square", (source) => {
    if (source.config.model_transaction_policy?.decoupled !== true) {
      const text = `model '${source.name}' of backend 'square' needs model_transaction_policy { decoupled: true }`;
      throw invalidArgument(text);
    }
    return {
      execute(request) {
        void answer(request);
      },
    };
  });
}

async function answer(request: BackendRequest): Promise<void> {
  const [input] = request.request.inputs;
  if (input === undefined || input.data.byteLength < 4) {
    request.fail(invalidArgument("backend 'square' expects one INT32 element in IN"));
    return;
  }
  const count = new DataView(input.data.buffer, input.data.byteOffset).getInt32(0, true);
  const { signal } = request.request;
  for (let i = 0; i < count && !signal.aborted; i += 1) {
    request.respond({ outputs: [{ ...input, name: "OUT" }], final: false });
    await request.drained();
  }
  if (signal.aborted) request.fail(new ServerError("cancelled", "request was cancelled by its client"));
  else request.respond({ outputs: [], final: true });
}
