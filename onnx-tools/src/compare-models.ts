/** Measures the output difference between two models on the same inputs. */

import { widenFp16 } from "@nereid/server/core/fp16";
import type { Tensor } from "@nereid/server/core/tensor";
import type { OnnxSession } from "@nereid/server/native/onnxruntime/session";
import { type ErrorSum, ErrorTotals } from "./error-totals.ts";

/** Runs both on every set of inputs; compares float outputs only. */
export async function compareModels(
  reference: OnnxSession,
  changed: OnnxSession,
  samples: readonly (readonly Tensor[])[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, ErrorSum>> {
  const totals = new Map<string, ErrorTotals>();
  const requests = reference.info.outputs.map(({ name }) => ({ name }));
  for (const inputs of samples) {
    signal.throwIfAborted();
    const expected = await reference.runAsync(inputs, requests).outputs;
    const got = await changed.runAsync(inputs, requests).outputs;
    for (const [index, tensor] of expected.entries()) {
      const wanted = floatsOf(tensor);
      const values = floatsOf(got[index] ?? tensor);
      if (wanted === undefined || values === undefined) continue;
      const total = totals.get(tensor.name) ?? new ErrorTotals();
      total.add(wanted, values);
      totals.set(tensor.name, total);
    }
  }
  return new Map([...totals].map(([name, total]) => [name, total.sum()]));
}

/** Undefined for types other than floats. */
function floatsOf({ datatype, data }: Tensor): Float32Array | undefined {
  const { buffer } = Uint8Array.from(data);
  if (datatype === "FP32") return new Float32Array(buffer);
  return datatype === "FP16" ? widenFp16(new Uint16Array(buffer)) : undefined;
}
