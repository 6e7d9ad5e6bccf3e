/**
 * `dyna_sequence`: OUTPUT is the sum of all INPUT of the sequence so far, by correlation id; the last request adds the low
 * 32 bits of the id. Needs the controls START, END, READY and CORRID.
 */
import { invalidArgument } from "../../core/server-error.ts";
import type { Backend, BackendRequest } from "../backend.ts";
import { correlationOf, expectAccumulator, filledOutput, inputSum, isSet } from "./control-values.ts";
import { createTestBackend } from "./test-backend.ts";

const CORRELATION_TYPES: ReadonlySet<string> = new Set(["TYPE_UINT64", "TYPE_STRING"]);

export function createDynaSequenceBackend(): Backend {
  return createTestBackend("dyna_sequence", (source) => {
    expectAccumulator(source, "dyna_sequence", ["START", "END", "READY", "CORRID"]);
    const controls = source.config.sequence_batching?.control_input.find(({ name }) => name === "CORRID")?.control;
    if (!CORRELATION_TYPES.has(controls?.[0]?.data_type ?? "")) {
      const text = `model '${source.name}' of backend 'dyna_sequence' needs CORRID of TYPE_UINT64 or TYPE_STRING`;
      throw invalidArgument(text);
    }
    return {
      createExecute() {
        const sums = new Map<bigint | string, number>();
        return (request) => answer(request, sums);
      },
    };
  });
}

function answer(request: BackendRequest, sums: Map<bigint | string, number>): void {
  if (!isSet(request, "READY")) {
    request.respond({ outputs: [], final: true });
    return;
  }
  const { key, low } = correlationOf(request);
  const before = isSet(request, "START") ? 0 : (sums.get(key) ?? 0);
  const isEnd = isSet(request, "END");
  const sum = (before + inputSum(request) + (isEnd ? low : 0)) | 0;
  if (isEnd) sums.delete(key);
  else sums.set(key, sum);
  request.respond({ outputs: [filledOutput(request, sum)], final: true });
}
