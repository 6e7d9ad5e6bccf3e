/** Decides in which type each tensor of a model is kept in memory. Pure: it reads no file and knows no device. */
import type { WeightType } from "../../device/cpu/convert-elements.ts";
import { PACKED_BLOCKS, type PackedDtype, type TensorDtype } from "../../formats/tensors/tensor-source.ts";
import type { EngineDtype } from "../../formats/trtllm/engine-header.ts";
import type { WeightKind, WeightPlan } from "./weight-plan.ts";

/** Files and memory have the same types, under names of other cases. */
const WEIGHT_TYPES: ReadonlyMap<EngineDtype, WeightType> = new Map<EngineDtype, WeightType>([
  ["F32", "f32"],
  ["F16", "f16"],
  ["BF16", "bf16"],
  ["Q4_0", "q4_0"],
  ["Q4_1", "q4_1"],
  ["Q5_0", "q5_0"],
  ["Q5_1", "q5_1"],
  ["Q8_0", "q8_0"],
  ["Q2_K", "q2_K"],
  ["Q3_K", "q3_K"],
  ["Q4_K", "q4_K"],
  ["Q5_K", "q5_K"],
  ["Q6_K", "q6_K"],
  ["IQ2_XXS", "iq2_xxs"],
  ["IQ2_XS", "iq2_xs"],
  ["IQ3_XXS", "iq3_xxs"],
  ["IQ1_S", "iq1_s"],
  ["IQ4_NL", "iq4_nl"],
  ["IQ3_S", "iq3_s"],
  ["IQ2_S", "iq2_s"],
  ["IQ4_XS", "iq4_xs"],
  ["IQ1_M", "iq1_m"],
  ["TQ1_0", "tq1_0"],
  ["TQ2_0", "tq2_0"],
  ["MXFP4", "mxfp4"],
]);
/** Blocks of these are not made of floats here. */
const NEEDS_IMPORTANCE: readonly WeightType[] = ["iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq1_s", "iq1_m"];
const FLOATS: readonly WeightType[] = ["f32", "f16", "bf16"];

/** A type for all matrices; "stored": that of the files, of floats too. */
export type RequestedType = WeightType | "stored";

/** Undefined for a type that holds no weights. */
export function weightTypeOf(dtype: TensorDtype): WeightType | undefined {
  return (WEIGHT_TYPES as ReadonlyMap<TensorDtype, WeightType>).get(dtype);
}

/** The name of a type in files. */
export function dtypeOf(type: WeightType): EngineDtype {
  const found = [...WEIGHT_TYPES].find(([, known]) => known === type);
  if (found === undefined) throw new Error(`files have no name for ${type}`);
  return found[0];
}

export function isBlockType(type: WeightType): boolean {
  return !FLOATS.includes(type);
}

/** `stored` are the types of its sources; without a requested type, blocks stay as they are stored and floats become f32. */
export function chooseType(
  plan: Pick<WeightPlan, "kind" | "shape"> & Partial<Pick<WeightPlan, "sources">>,
  stored: readonly WeightType[],
  requested: RequestedType | undefined,
): WeightType {
  if (plan.kind === "exact") return "f32";
  const isAsStored = requested === undefined || requested === "stored";
  const given = isAsStored ? asStored(stored, requested === "stored") : forKind(plan.kind, requested);
  // Transposed rows have other blocks, and these types are made with knowledge of a model's inputs.
  const isTurned = plan.sources?.some(({ change }) => change.startsWith("transpose")) === true;
  const type = isTurned && NEEDS_IMPORTANCE.includes(given) ? "q8_0" : given;
  return fitRow(type, plan.shape.at(-1) ?? 1);
}

/** Sources of several types become one that loses none of them noticeably. */
function asStored(stored: readonly WeightType[], keepsFloats: boolean): WeightType {
  const [first = "f32"] = stored;
  if (!stored.some(isBlockType)) return keepsFloats && stored.every((type) => type === first) ? first : "f32";
  return stored.every((type) => type === first) ? first : "q8_0";
}

/** Logits and embeddings suffer from four bits more than anything else. */
function forKind(kind: WeightKind, requested: WeightType): WeightType {
  return kind === "vocabulary" && isBlockType(requested) ? "q8_0" : requested;
}

/** Rows that are no whole blocks stay floats. */
function fitRow(type: WeightType, row: number): WeightType {
  if (!isBlockType(type)) return type;
  return row % PACKED_BLOCKS[dtypeOf(type) as PackedDtype].numElements === 0 ? type : "bf16";
}
