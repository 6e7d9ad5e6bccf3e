/**
 * RoPE on the first `numHeads` heads of each row, in the "half" (NeoX) or the interleaved (GPT-J) layout. Queries and keys are adjacent in the
 * rows of one projection, so one node rotates both. In multimodal RoPE the frequencies are divided between several
 * positions of a token, and each rotates by its own. Bound by bytes. Source: RoPE (Su et al. 2021), Qwen2-VL (Wang et
 * al. 2024); ggml.h, ggml_rope_ext and ggml_rope_multi.
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor } from "../../src/device/cpu/cpu-tensor.ts";

export interface RopeArgs {
  readonly x: CpuTensor; // [numTokens, rowWidth], rowWidth >= numHeads * headDim
  readonly positions: CpuTensor; // [numTokens]; with sections [4 * numTokens], one list after the other
  /** Frequencies that rotate by the first, second and third position of a token; absent: it has one. */
  readonly sections?: readonly [number, number, number] | undefined;
  readonly numHeads: number;
  readonly headDim: number;
  /** Elements of a head that rotate, from its first on; the others are copied. */
  readonly numDims: number;
  /** Element 2i rotates with 2i + 1 (GPT-J); absent: i with i + numDims / 2. */
  readonly isInterleaved?: boolean | undefined;
  readonly theta: number;
  readonly frequencyFactors?: CpuTensor | undefined; // [numDims / 2], each divides its frequency
  /** Multiplies what has rotated. */
  readonly magnitude: number;
}

/** ggml's name for the layout in which element i rotates with element i + numDims / 2. */
const MODE_NEOX = 2;
/** The layout in which element 2i rotates with element 2i + 1. */
const MODE_INTERLEAVED = 0;
/** The same with four positions a token. */
const MODE_SECTIONS = 8;
/** The fourth is for models that nobody serves here. */
export const POSITIONS_PER_TOKEN = 4;

/** [numTokens, numHeads, headDim] */
export function recordRope(graph: CpuGraph, args: RopeArgs): CpuTensor {
  const { x, positions, sections, numHeads, headDim, numDims, theta, frequencyFactors, magnitude } = args;
  const [numTokens = 0, rowWidth = 0] = x.shape;
  expectTensor("rope x", x, ["f32"], [-1, -1]);
  expectTensor(
    "rope positions",
    positions,
    ["i32"],
    [sections === undefined ? numTokens : POSITIONS_PER_TOKEN * numTokens],
  );
  if (sections !== undefined && sections.reduce((sum, count) => sum + count, 0) !== numDims / 2)
    throw new Error(`rope: expected sections of ${numDims / 2} frequencies, got ${sections.join(" + ")}`);
  if (numDims % 2 !== 0 || numDims > headDim)
    throw new Error(`rope: expected an even number of at most ${headDim} elements, got ${numDims}`);
  if (numHeads * headDim > rowWidth)
    throw new Error(`rope: ${numHeads} heads of ${headDim} exceed rows of ${rowWidth}`);
  if (frequencyFactors !== undefined) expectTensor("rope factors", frequencyFactors, ["f32"], [numDims / 2]);
  const { base } = graph.ggml;
  const heads = base.view3d(graph.claim(), x.handle, headDim, numHeads, numTokens, headDim * 4, rowWidth * 4, 0);
  const factors = frequencyFactors?.handle ?? null;
  const mode = args.isInterleaved === true ? MODE_INTERLEAVED : MODE_NEOX;
  // The other zeros and ones after `theta` switch ggml's own YaRN off: `frequencyFactors` holds what it would do.
  const rest = [0, theta, 1, 0, magnitude, 0, 0] as const;
  const handle =
    sections === undefined
      ? base.ropeExt(graph.claim(), heads, positions.handle, factors, numDims, mode, ...rest)
      : base.ropeMulti(
          graph.claim(),
          heads,
          positions.handle,
          factors,
          numDims,
          Int32Array.of(...sections, 0),
          MODE_SECTIONS,
          ...rest,
        );
  return { handle, type: "f32", shape: [numTokens, numHeads, headDim] };
}
