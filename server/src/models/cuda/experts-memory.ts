/** GPU memory of a layer's experts, beside the activations of all layers; counted before it is allocated. */
import { ELEM_BYTES, type ElemType } from "../../../kernels/cuda/launch-args.ts";
import { gemmRows } from "../../device/cuda/dense-gemm.ts";
import type { DevicePointer } from "../../device/cuda/kernel-stream.ts";
import { planRegions, type RegionPlan } from "../../device/cuda/regions.ts";
import type { DecoderConfig } from "../config/decoder-config.ts";

type Part =
  | "logits"
  | "ids"
  | "weights"
  | "counts"
  | "order"
  | "opened"
  | "active"
  | "closed"
  | "sharedOpened"
  | "sharedActive"
  | "sharedClosed"
  | "sharedGate";

export type ExpertsMemory = Readonly<Record<Part, DevicePointer>>;
export type ExpertsPlan = RegionPlan<Part>;

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
  // GEMMs round their rows up; choices are never more than there are.
  const rows = gemmRows(maxTokens, true);
  const choices = maxTokens * numChosen;
  const bytes = ELEM_BYTES[type];
  const shared = sharedSize > 0 ? rows * bytes : 0;
  return planRegions({
    logits: 4 * rows * numExperts, // f32 [rows, experts]
    ids: 4 * choices, // i32 [choices]
    weights: 4 * choices, // f32 [choices]
    // Zeros at first: each pass through the experts leaves them so.
    counts: 4 * numExperts, // i32 [experts]
    order: 4 * numExperts * maxTokens, // i32 [experts, tokens]
    // Grouped GEMMs apply the gated activation themselves.
    opened: type === "bf16" ? 0 : bytes * choices * 2 * intermediateSize, // [choices, 2 * intermediate]
    active: bytes * choices * intermediateSize, // [choices, intermediate]
    closed: bytes * choices * hiddenSize, // [choices, hidden]
    sharedOpened: shared * 2 * sharedSize, // [rows, 2 * shared intermediate]
    sharedActive: shared * sharedSize, // [rows, shared intermediate]
    sharedClosed: shared * hiddenSize, // [rows, hidden]
    sharedGate: shared, // [rows]
  });
}
