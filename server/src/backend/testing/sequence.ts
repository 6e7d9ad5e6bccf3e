/**
 * `sequence`: OUTPUT is the sum of all INPUT of the sequence so far. The sums are kept by row of the batch, so they are
 * right only when a sequence keeps its row: a test of the direct strategy. Needs the controls START and READY.
 */
import type { Backend, BackendRequest } from "../backend.ts";
import { expectAccumulator, filledOutput, inputSum, isSet } from "./control-values.ts";
import { createTestBackend } from "./test-backend.ts";

export function createSequenceBackend(): Backend {
  return createTestBackend("sequence", (source) => {
    expectAccumulator(source, "sequence", ["START", "READY"]);
    return {
      createExecute() {
        const sums: number[] = [];
        return (request, row) => answer(request, row, sums);
      },
    };
  });
}

function answer(request: BackendRequest, row: number, sums: number[]): void {
  if (!isSet(request, "READY")) {
    request.respond({ outputs: [], final: true });
    return;
  }
  const before = isSet(request, "START") ? 0 : (sums[row] ?? 0);
  const sum = (before + inputSum(request)) | 0;
  sums[row] = sum;
  request.respond({ outputs: [filledOutput(request, sum)], final: true });
}
