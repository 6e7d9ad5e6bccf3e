/**
 * Decides the type and layout of each matrix in an engine: blocks stay, floats take the fastest type, each shape its
 * fastest layout. It writes nothing.
 */
import { availableProcessors, processorName } from "@nereid/server/device/cpu/available-processors";
import type { FloatType, WeightType } from "@nereid/server/device/cpu/convert-elements";
import type { CpuDevice } from "@nereid/server/device/cpu/cpu-device";
import type { EngineThreads } from "@nereid/server/formats/trtllm/engine-header";
import { isPackedDtype, type TensorSource } from "@nereid/server/formats/tensors/tensor-source";
import { type TypedPlan, typePlan } from "@nereid/server/models/cpu/weights";
import { describeWeights, findPrefix, type WeightPlan } from "@nereid/server/models/weights/weight-plan";
import { chooseCheckpointType } from "../checkpoint/convert-checkpoint.ts";
import { type OpenedDecoder } from "../checkpoint/open-decoder.ts";
import {
  fastest,
  type MatrixShape,
  type GemmVariant,
  type ThreadTiming,
  threadCounts,
  timeThreads,
  timeVariant,
  type VariantTiming,
  variantsOf,
} from "./measure-gemms.ts";
import type { Reporter } from "@nereid/server/files/progress";

export interface GemmOptions {
  /** Type of the matrices; "auto": blocks as stored, floats in `floatType`. */
  readonly weightType: WeightType | "auto";
  /** "auto": the fastest type on this machine. */
  readonly floatType: FloatType | "auto";
  readonly reporter: Reporter;
  readonly signal: AbortSignal;
}

/** Key of all matrices with one shape and the same candidate types. */
export interface GemmChoice extends GemmVariant {
  readonly shape: readonly number[];
  /** Timings of all variants, the chosen one first; empty when there is only one. */
  readonly timings: readonly VariantTiming[];
}

export interface EnginePlan extends TypedPlan {
  /** Undefined: there is only one variant, or nothing is multiplied. */
  readonly layout: GemmVariant["layout"] | undefined;
}

export interface EngineChoice {
  readonly plans: readonly EnginePlan[];
  readonly products: readonly GemmChoice[];
  readonly threads: EngineThreads;
  readonly threadTimings: readonly ThreadTiming[];
}

export async function chooseGemms(
  options: GemmOptions,
  opened: OpenedDecoder,
  device: CpuDevice,
): Promise<EngineChoice> {
  const { parsed, tensors } = opened;
  const drafts: Draft[] = [];
  const prefix = findPrefix(parsed.weights, (name) => tensors.tensors.has(name));
  const isTied = parsed.config.tieWordEmbeddings;
  describeWeights(parsed.config, parsed.weights, prefix, (plan) => {
    // The embedding comes first, and stands for the output when both are tied.
    const isMultiplied = plan.isGemmOperand || (isTied && drafts.length === 0);
    drafts.push({ plan, isMultiplied, types: candidates(options, opened, plan, isMultiplied) });
  });
  const choices = await measure(options, device, drafts);
  const plans = drafts.map(({ plan, isMultiplied, types }) => {
    const chosen = isMultiplied ? choices.get(keyOf(plan, types)) : undefined;
    const type = chosen?.type ?? types[0] ?? "f32";
    return { ...plan, type, layout: chosen?.timings.length === 0 ? undefined : chosen?.layout };
  });
  const products = [...choices.values()];
  return { plans, products, ...(await measureThreads(products, options)) };
}

interface Draft {
  readonly plan: WeightPlan;
  readonly isMultiplied: boolean;
  /** Candidate types, the default first. */
  readonly types: readonly WeightType[];
}

function keyOf({ shape }: WeightPlan, types: readonly WeightType[]): string {
  return `${shape.join("x")} ${types.join(" ")}`;
}

function isStoredInBlocks({ sources }: WeightPlan, { tensors }: TensorSource, { weightType }: GemmOptions): boolean {
  return weightType === "auto" && sources.some(({ name }) => isPackedDtype(tensors.get(name)?.dtype ?? "F32"));
}

function candidates(
  options: GemmOptions,
  opened: OpenedDecoder,
  plan: WeightPlan,
  isMultiplied: boolean,
): readonly WeightType[] {
  const { tensors } = opened;
  const types = isStoredInBlocks(plan, tensors, options) ? [undefined] : requestedFor(options, opened, isMultiplied);
  return [...new Set(types.map((type) => typePlan(plan, tensors, type).type))];
}

function requestedFor(
  { weightType, floatType }: GemmOptions,
  { parsed, tensors }: OpenedDecoder,
  isMultiplied: boolean,
): readonly WeightType[] {
  if (weightType !== "auto") return [weightType];
  if (floatType !== "auto") return [floatType];
  const stored = chooseCheckpointType("auto", parsed, tensors);
  const hasBlocks = [...tensors.tensors.values()].some(({ dtype }) => isPackedDtype(dtype));
  // Beside quantized matrices floats keep their type, and so do embedding rows.
  return hasBlocks || !isMultiplied || stored === "f32" ? [stored] : ["f32", stored];
}

async function measure(
  { reporter, signal }: GemmOptions,
  device: CpuDevice,
  drafts: readonly Draft[],
): Promise<ReadonlyMap<string, GemmChoice>> {
  const kinds = new Map<string, { readonly shape: WeightPlan["shape"]; readonly types: readonly WeightType[] }>();
  for (const { plan, isMultiplied, types } of drafts) {
    if (isMultiplied) kinds.set(keyOf(plan, types), { shape: plan.shape, types });
  }
  const choices = new Map<string, GemmChoice>();
  const task = reporter.startTask({ task: "measure", unit: "shapes", total: kinds.size });
  try {
    for (const [key, { shape, types }] of kinds) {
      const ways = types.flatMap((type) => variantsOf(device, type, shape));
      const timings: VariantTiming[] = [];
      for (const way of ways.length > 1 ? ways : []) {
        signal.throwIfAborted();
        timings.push(await timeVariant(device, matrixOf(shape), way));
      }
      const [first = { type: "f32", layout: "plain" } as const] = ways;
      const { type, layout } = timings.length === 0 ? first : fastest(timings);
      const isChosen = (one: GemmVariant): boolean => one.type === type && one.layout === layout;
      timings.sort((a, b) => Number(isChosen(b)) - Number(isChosen(a)));
      choices.set(key, { shape, type, layout, timings });
      task.add(1, shape.join(" x "));
    }
  } finally {
    task.end();
  }
  return choices;
}

/** Each expert is a matrix. */
function matrixOf(shape: WeightPlan["shape"]): MatrixShape {
  return [shape.at(-2) ?? 1, shape.at(-1) ?? 1];
}

async function measureThreads(
  products: readonly GemmChoice[],
  { signal, reporter }: GemmOptions,
): Promise<Pick<EngineChoice, "threads" | "threadTimings">> {
  const counts = threadCounts(availableProcessors());
  const matrices = products.map((one) => ({ ...one, shape: matrixOf(one.shape as WeightPlan["shape"]) }));
  const task = reporter.startTask({ task: "measure threads", unit: "counts", total: counts.length });
  const threadTimings: ThreadTiming[] = [];
  try {
    for (const count of counts) {
      signal.throwIfAborted();
      threadTimings.push(await timeThreads(matrices, count));
      task.add(1, `${count}`);
    }
  } finally {
    task.end();
  }
  const least = (of: "decodeUs" | "prefillUs"): number =>
    threadTimings.reduce((best, one) => (one[of] < best[of] ? one : best)).threads;
  const threads = {
    processor: processorName(),
    numProcessors: availableProcessors(),
    decode: least("decodeUs"),
    prefill: least("prefillUs"),
  };
  return { threads, threadTimings };
}
