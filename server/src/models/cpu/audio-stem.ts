/**
 * The convolutions in front of an encoder of sound, as products with the frames that each row reads. Source: Radford et al. 2022
 * (Whisper), section 2.2; transformers, modeling_whisper.py.
 */
import { recordGatherRows } from "../../../kernels/gather-rows/gather-rows.ggml.ts";
import { recordGelu } from "../../../kernels/gelu/gelu.ggml.ts";
import { recordLinear } from "../../../kernels/linear/linear.ggml.ts";
import type { CpuGraph } from "../../device/cpu/cpu-graph.ts";
import type { CpuTensor } from "../../device/cpu/cpu-tensor.ts";
import type { DecoderModel } from "./decoder-model.ts";

/** Frames that a row reads. */
const WIDTH = 3;

/** `frames`: [numFrames, numMels]; gives [numRows, hidden], where a row stands at every second frame. */
export function recordAudioStem(
  graph: CpuGraph,
  { config, weights }: DecoderModel,
  frames: Float32Array,
  numRows: number,
): CpuTensor {
  const { audioStem } = config;
  const stem = weights.encoder?.audioStem;
  if (audioStem === undefined || stem === undefined) throw new Error("frames of sound for a model that takes none");
  const { numMels } = audioStem;
  const numFrames = frames.length / numMels;
  if (Math.ceil(numFrames / 2) !== numRows) throw new Error(`${numFrames} frames of sound for ${numRows} rows`);
  const columns = graph.input("f32", [numFrames, WIDTH * numMels], framesRead(frames, numMels));
  const first = recordGelu(graph, { x: recordLinear(graph, { x: columns, ...stem.first }), form: "erf" });
  return recordGelu(graph, {
    x: recordLinear(graph, { x: everySecond(graph, first, numRows), ...stem.second }),
    form: "erf",
  });
}

/** Row t holds, for each number of a frame, those of frames t - 1, t and t + 1; zeros beyond the ends. */
export function framesRead(frames: Float32Array, width: number): Float32Array {
  const numFrames = frames.length / width;
  const columns = new Float32Array(frames.length * WIDTH);
  for (let t = 0; t < numFrames; t++) {
    for (let tap = 0; tap < WIDTH; tap++) {
      const from = t + tap - 1;
      if (from < 0 || from >= numFrames) continue;
      for (let i = 0; i < width; i++) columns[(t * width + i) * WIDTH + tap] = frames[from * width + i] ?? 0;
    }
  }
  return columns;
}

/** The same on the device, of rows 2t - 1, 2t and 2t + 1. */
function everySecond(graph: CpuGraph, x: CpuTensor, numRows: number): CpuTensor {
  const { base } = graph.ggml;
  const [numFrames = 0, width = 0] = x.shape;
  const zeros = graph.input("f32", [1, width], new Float32Array(width));
  const padded = base.concat(graph.claim(), x.handle, zeros.handle, 1);
  const table: CpuTensor = { handle: padded, type: "f32", shape: [numFrames + 1, width] };
  const taps = Array.from({ length: WIDTH }, (_, tap) => {
    const at = Int32Array.from({ length: numRows }, (_, t) => 2 * t + tap - 1);
    const rows = at.map((row) => (row < 0 || row >= numFrames ? numFrames : row));
    const ids = graph.input("i32", [numRows], rows);
    return base.reshape3d(graph.claim(), recordGatherRows(graph, { table, ids }).handle, 1, width, numRows);
  });
  const [before = 0n, at = 0n, behind = 0n] = taps;
  const pair = base.concat(graph.claim(), before, at, 0);
  const all = base.concat(graph.claim(), pair, behind, 0);
  const handle = base.reshape2d(graph.claim(), all, WIDTH * width, numRows);
  return { handle, type: "f32", shape: [numRows, WIDTH * width] };
}
