/** Codes and scales of rows on a GPU, decoded again; and the scaling of sums. Source: quantize.cu. */
import { interleavedCodes } from "../expert-gemm/expert-gemm.ref.ts";
import { type CudaCheck, type CudaCheckContext, relativeError, shareOfDifferences } from "../testing/cuda-check.ts";
import { allocateFloats, downloadFloats, seededInts, uploadFloats, uploadRandom } from "../testing/cuda-check-data.ts";
import { launchQuantizeRows, launchScaleSums } from "./quantize.cuda.ts";

const ROWS = 19;
const WIDTH = 2048;
const COUNT = ROWS * WIDTH;

export const cudaChecks: readonly CudaCheck[] = [
  ...(["row", "tensor"] as const).map((per) => ({
    name: `quantize e4m3 by ${per}`,
    maxError: 4e-2,
    run: (context: CudaCheckContext) => runE4m3(context, per),
  })),
  { name: "quantize e4m3 interleaved", maxError: 0, run: runInterleaved },
  { name: "scale sums bf16", maxError: 4e-3, run: (context) => runScale(context, "elem") },
  { name: "scale sums i32", maxError: 4e-3, run: (context) => runScale(context, "i32") },
];

async function runE4m3(context: CudaCheckContext, per: "row" | "tensor"): Promise<number> {
  const x = uploadRandom(context, "bf16", COUNT, 1, 5);
  const out = allocateFloats(context, "e4m3", COUNT);
  const given = 5 / 448;
  const scales = per === "row" ? context.allocate(ROWS * 4) : context.upload(Float32Array.of(given));
  const quantized = { codes: "e4m3", scales, per } as const;
  launchQuantizeRows(context.stream, { type: "bf16", x: x.pointer, out, quantized, numRows: ROWS, width: WIDTH });
  const codes = await downloadFloats(context, "e4m3", out, COUNT);
  const found = per === "row" ? await downloadFloats(context, "f32", scales, ROWS) : new Float32Array(ROWS).fill(given);
  return relativeError(
    codes.map((code, i) => code * (found[Math.floor(i / WIDTH)] ?? Number.NaN)),
    x.values,
  );
}

/** The same codes in another order. */
async function runInterleaved(context: CudaCheckContext): Promise<number> {
  const x = uploadRandom(context, "bf16", COUNT, 1, 5);
  const [codes, interleaved] = [new Uint8Array(COUNT), new Uint8Array(COUNT)];
  for (const into of [codes, interleaved]) {
    const out = context.allocate(COUNT);
    const quantized = { codes: "e4m3", scales: context.allocate(ROWS * 4), per: "row" } as const;
    const rows = { x: x.pointer, out, quantized, numRows: ROWS, width: WIDTH, isInterleaved: into === interleaved };
    launchQuantizeRows(context.stream, { type: "bf16", ...rows });
    await context.download(out, into);
  }
  return shareOfDifferences(interleaved, interleavedCodes(codes));
}

async function runScale(context: CudaCheckContext, sumType: "elem" | "i32"): Promise<number> {
  const whole = seededInts(COUNT, 2, 100_000);
  const floats = uploadFloats(context, "bf16", Float32Array.from(whole));
  const rowScales = uploadRandom(context, "f32", ROWS, 3);
  const columnScales = uploadRandom(context, "f32", WIDTH, 4);
  const out = allocateFloats(context, "bf16", COUNT);
  launchScaleSums(context.stream, {
    type: "bf16",
    sums: sumType === "i32" ? context.upload(whole) : floats.pointer,
    sumType,
    rowScales: rowScales.pointer,
    columnScales: columnScales.pointer,
    out,
    numRows: ROWS,
    width: WIDTH,
  });
  const sums = sumType === "i32" ? Float32Array.from(whole) : floats.values;
  const expected = sums.map(
    (sum, i) => sum * (rowScales.values[Math.floor(i / WIDTH)] ?? 0) * (columnScales.values[i % WIDTH] ?? 0),
  );
  return relativeError(await downloadFloats(context, "bf16", out, COUNT), expected);
}
