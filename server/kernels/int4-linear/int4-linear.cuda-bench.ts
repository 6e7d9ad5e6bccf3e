/** INT4 GEMMs of a layer; weights rotate, so that none stays in the L2 cache. Sources: int4-linear.cu, int4-wgmma.cu. */
import type { CudaBench, CudaBenchSet } from "../testing/cuda-bench.ts";
import type { CudaCheckContext } from "../testing/cuda-check.ts";
import { uploadPattern } from "../testing/cuda-check-data.ts";
import { type Int4CudaWeight, int4WorkspaceBytes, launchInt4Linear } from "./int4-linear.cuda.ts";
import { int4WgmmaTileConfig, launchInt4Wgmma } from "./int4-wgmma.cuda.ts";

/** At the shapes of Llama-3.1-8B, unless named otherwise. */
export const cudaBenches: readonly CudaBenchSet[] = [
  { name: "int4-linear", benches: (context) => benches(context, [1, 8, 16, 32, 64], false) },
  { name: "int4-wgmma", needsWgmma: true, benches: (context) => benches(context, [16, 32, 64], true) },
];

function benches(context: CudaCheckContext, rows: readonly number[], isGroup: boolean): readonly CudaBench[] {
  const { stream } = context;
  const shapes: readonly (readonly [outputs: number, inputs: number])[] = [
    [6144, 4096],
    [4096, 4096],
    [28672, 4096],
    [4096, 14336],
  ];
  return shapes.flatMap(([outputs, inputs]) => {
    const groupSize = 128;
    const codeBytes = (outputs * inputs) / 2;
    const copies = Math.max(2, Math.ceil(2 ** 28 / codeBytes));
    const weights = Array.from({ length: copies }, (): Int4CudaWeight => {
      const codes = uploadPattern(context, "f32", codeBytes / 4);
      const scales = uploadPattern(context, "bf16", (outputs * inputs) / groupSize);
      return { codes, scales, outputs, inputs, groupSize };
    });
    return rows.map((numRows) => {
      const x = uploadPattern(context, "bf16", numRows * inputs);
      const out = context.allocate(numRows * outputs * 2);
      const bytes = int4WorkspaceBytes(stream, numRows, outputs, inputs);
      const workspace = { counters: context.zeros(bytes.counters), partials: context.allocate(bytes.partials) };
      return {
        name: `${numRows} rows ${outputs} x ${inputs}`,
        bytes: codeBytes + (codeBytes * 4) / groupSize,
        flops: 2 * numRows * outputs * inputs,
        launch: (round: number): void => {
          const weight = weights[round % copies];
          if (weight === undefined) return;
          const form = isGroup ? int4WgmmaTileConfig(stream, numRows, weight) : undefined;
          const product = { x, weight, out, numRows, ...workspace };
          if (form === undefined) launchInt4Linear(stream, product);
          else launchInt4Wgmma(stream, product, form);
        },
      };
    });
  });
}
