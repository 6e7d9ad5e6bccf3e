/** What the experts of a layer take of a GPU's memory beside the activations of all layers; counted before it is allocated. */
import { ELEM_BYTES, type ElemType } from "../../../kernels/cuda/launch-args.ts";
import { layOut } from "../../device/cuda/cuda-tensor.ts";
import { productRows } from "../../device/cuda/dense-gemm.ts";
import type { DevicePointer } from "../../device/cuda/kernel-stream.ts";
import type { DecoderConfig } from "../config/decoder-config.ts";

const PARTS = [
  "logits", // f32 [rows, experts]
  "ids", // i32 [choices]
  "weights", // f32 [choices]
  "starts", // i32 [experts + 1]
  "order", // i32 [choices]
  "opened", // [choices, 2 * intermediate]
  "active", // [choices, intermediate]
  "closed", // [choices, hidden]
  "sharedOpened", // [rows, 2 * shared intermediate]
  "sharedActive", // [rows, shared intermediate]
  "sharedClosed", // [rows, hidden]
  "sharedGate", // [rows]
] as const;
type Part = (typeof PARTS)[number];

export type ExpertsMemory = Readonly<Record<Part, DevicePointer>>;

export interface ExpertsPlan {
  readonly offsets: readonly number[];
  readonly numBytes: number;
}

/** A choice of more would not fit a warp of the kernel that chooses. */
const MAX_CHOSEN = 32;

/** Undefined for models without experts. @throws Error for more experts a token than the kernels take */
export function planExperts(
  { experts, hiddenSize }: DecoderConfig,
  type: ElemType,
  maxTokens: number,
): ExpertsPlan | undefined {
  if (experts === undefined) return undefined;
  const { numExperts, numChosen, intermediateSize, sharedIntermediateSize: sharedSize } = experts;
  if (numChosen > MAX_CHOSEN) throw new Error(`a GPU takes at most ${MAX_CHOSEN} experts a token, got ${numChosen}`);
  // Products round their rows up; choices are never more than there are.
  const rows = productRows(maxTokens, true);
  const choices = maxTokens * numChosen;
  const bytes = ELEM_BYTES[type];
  const shared = sharedSize > 0 ? rows * bytes : 0;
  const sizes: Readonly<Record<Part, number>> = {
    logits: 4 * rows * numExperts,
    ids: 4 * choices,
    weights: 4 * choices,
    starts: 4 * (numExperts + 1),
    order: 4 * choices,
    opened: bytes * choices * 2 * intermediateSize,
    active: bytes * choices * intermediateSize,
    closed: bytes * choices * hiddenSize,
    sharedOpened: shared * 2 * sharedSize,
    sharedActive: shared * sharedSize,
    sharedClosed: shared * hiddenSize,
    sharedGate: shared,
  };
  return layOut(PARTS.map((part) => sizes[part]));
}

export function placeExperts({ offsets }: ExpertsPlan, base: DevicePointer): ExpertsMemory {
  return Object.fromEntries(PARTS.map((part, i) => [part, base + BigInt(offsets[i] ?? 0)])) as Record<
    Part,
    DevicePointer
  >;
}
