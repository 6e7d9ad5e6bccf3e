/** Puts the weights of a decoder on the CPU device, in the types and layouts that suit its GEMMs. */
import { expectAt } from "../../core/expect-at.ts";
import { convertElements, type WeightType } from "../../device/cpu/convert-elements.ts";
import type { CpuDevice } from "../../device/cpu/cpu-device.ts";
import type { CpuTensor } from "../../device/cpu/cpu-tensor.ts";
import { type PlacedSpec, PlacedTensors } from "../../device/cpu/placed-tensors.ts";
import { rowBytes, type StoredTensor, type TensorSource } from "../../formats/tensors/tensor-source.ts";
import { isPackedTensors, type PackedTensors } from "../../formats/trtllm/engine-file.ts";
import { expectTarget } from "../../formats/trtllm/engine-header.ts";
import type { ParsedDecoder } from "../config/parse-decoder-config.ts";
import type { RopeFactors } from "../config/rope-factors.ts";
import { expectSource, loadWeights, type WeightSink } from "../weights/load-weights.ts";
import { listWeights, nameTensors, type WeightList } from "../weights/weight-list.ts";
import type { ModelWeights, WeightPlan } from "../weights/weight-plan.ts";
import { chooseType, type RequestedType, weightTypeOf } from "../weights/weight-types.ts";

export interface DecoderWeights extends ModelWeights<CpuTensor> {
  /** Divisors of the frequencies of each rope; undefined where none changes. */
  readonly ropeDivisors: readonly (CpuTensor | undefined)[];
  readonly numBytes: number;
  close(): void;
}

/** Read, converted and copied at a time: bounds what loading needs beside the weights themselves. Whole blocks. */
const PIECE_ELEMENTS: number = 4 << 20;

/** Takes the bytes of one tensor. */
export type TensorWriter = Pick<ReturnType<PlacedTensors["writer"]>, "write">;

/** A plan and the type in which its tensor is kept. */
export interface TypedPlan extends WeightPlan {
  readonly type: WeightType;
}

/** The tensors of a model on the CPU device, before any is placed. */
export interface CpuWeightsPlan {
  readonly list: WeightList;
  /** In the order of the list. */
  readonly plans: readonly TypedPlan[];
  /** Files of an engine, which have each tensor as the device keeps it. */
  readonly packed: PackedTensors | undefined;
}

/**
 * `matrixType` is undefined for: as the files have them.
 * @throws Error naming a tensor that is missing or has another shape than the config says
 */
export function planCpuWeights(
  device: Pick<CpuDevice, "target" | "gemmMemory">,
  parsed: ParsedDecoder,
  files: TensorSource,
  matrixType: RequestedType | undefined,
): CpuWeightsPlan {
  const packed = isPackedTensors(files) ? files : undefined;
  if (packed !== undefined) expectTarget(packed.target, device.target, packed.path);
  const typed = (plan: WeightPlan): TypedPlan =>
    packed === undefined ? typePlan(plan, files, matrixType) : packedPlan(plan, packed);
  const list = listWeights(parsed, files);
  const plans = list.plans.map(typed);
  // A tied output is multiplied with at every step: worth a copy of its own where that makes it faster.
  const [embedding] = plans;
  const isPlain = embedding !== undefined && packed?.tensors.get(packedName(embedding))?.layout === "plain";
  const isTied = parsed.config.tieWordEmbeddings && embedding !== undefined && !isPlain;
  if (!isTied || device.gemmMemory(embedding) === undefined) return { list, plans, packed };
  const copying = listWeights(parsed, files, true);
  return { list: copying, plans: copying.plans.map(typed), packed };
}

/** @throws Error as `planCpuWeights()` does, and when the memory cannot be had */
export async function loadDecoderWeights(
  device: CpuDevice,
  parsed: ParsedDecoder,
  files: TensorSource,
  matrixType: RequestedType | undefined,
  ropes: readonly RopeFactors[],
): Promise<DecoderWeights> {
  const { list, plans, packed } = planCpuWeights(device, parsed, files, matrixType);
  const divisors = ropes.flatMap((rope) => rope.divisors ?? []);
  const divisorSpecs = divisors.map(
    ({ length }): PlacedSpec => ({ type: "f32", shape: [length], isGemmOperand: false }),
  );
  const placed = new PlacedTensors(device, [...plans, ...divisorSpecs]);
  try {
    for (const [i, plan] of plans.entries()) {
      const writer = placed.writer(i);
      await loadWeights([plan], files, cpuSink(device.ggml, writer, files, packed));
      writer.end();
    }
    for (const [i, values] of divisors.entries()) writeAll(placed.writer(plans.length + i), values);
    let next = plans.length;
    return {
      ...nameTensors(list, placed.tensors.slice(0, plans.length)),
      ropeDivisors: ropes.map((rope) => (rope.divisors === undefined ? undefined : expectAt(placed.tensors, next++))),
      numBytes: placed.numBytes,
      close: () => placed.close(),
    };
  } catch (error) {
    placed.close();
    throw error;
  }
}

/** `matrixType` is undefined for: as the files have them. @throws Error naming a tensor that does not fit */
export function typePlan(plan: WeightPlan, files: TensorSource, matrixType: RequestedType | undefined): TypedPlan {
  const stored = plan.sources.map((source) => expectSource(source, files, expectType));
  return { ...plan, type: chooseType(plan, stored, matrixType) };
}

/** The name of a packed tensor: that of its first source. */
export function packedName({ sources }: WeightPlan): string {
  return sources[0]?.name ?? "";
}

function packedPlan(plan: WeightPlan, packed: PackedTensors): TypedPlan {
  const stored = packed.tensors.get(packedName(plan));
  const type = stored && weightTypeOf(stored.dtype);
  const { shape } = plan;
  const fits = stored?.shape.length === shape.length && shape.every((size, i) => size === stored.shape[i]);
  const isGemmOperand = plan.isGemmOperand && stored?.layout !== "plain";
  if (fits && type !== undefined) return { ...plan, type, isGemmOperand };
  const got = stored === undefined ? "none" : `[${stored.shape.join(", ")}]`;
  throw new Error(
    `${packed.path}: tensor "${packedName(plan)}": expected [${shape.join(", ")}], got ${got}; build it again`,
  );
}

/** Reads elements with the library's own conversions; `writer` takes those of one tensor, in order. */
function cpuSink(
  ggml: CpuDevice["ggml"],
  writer: TensorWriter,
  files: TensorSource,
  packed?: PackedTensors,
): WeightSink<TypedPlan> {
  return {
    fillWhole: async (plan) => {
      if (packed !== undefined) await copyPacked(writer, plan, packed);
      return packed !== undefined;
    },
    typeOf: ({ type }) => type,
    maxElements: () => PIECE_ELEMENTS,
    read: async (stored, element, count, type) => {
      const elements = new Uint8Array(rowBytes(stored.dtype, count));
      await files.read(stored.name, elements, rowBytes(stored.dtype, element));
      return convertElements(ggml, expectType(stored), type, elements);
    },
    convert: (from, to, bytes) => convertElements(ggml, from, to, bytes),
    write: async (_plan, _element, _count, read) => writer.write(await read()),
  };
}

async function copyPacked(writer: TensorWriter, plan: TypedPlan, packed: PackedTensors): Promise<void> {
  const name = packedName(plan);
  const { byteLength = 0 } = packed.tensors.get(name) ?? {};
  const piece = new Uint8Array(Math.min(byteLength, PIECE_ELEMENTS));
  for (let offset = 0; offset < byteLength; offset += piece.byteLength) {
    const part = piece.subarray(0, byteLength - offset);
    await packed.read(name, part, offset);
    writer.write(part);
  }
}

/** The bytes of a tensor as the device keeps it, a piece at a time. */
export async function fillTensor(
  ggml: CpuDevice["ggml"],
  writer: TensorWriter,
  plan: TypedPlan,
  files: TensorSource,
): Promise<void> {
  await loadWeights([plan], files, cpuSink(ggml, writer, files));
}

function expectType({ name, dtype }: StoredTensor): WeightType {
  const type = weightTypeOf(dtype);
  if (type === undefined) throw new Error(`tensor "${name}": expected F32, F16 or BF16, got ${dtype}`);
  return type;
}

function writeAll(writer: ReturnType<PlacedTensors["writer"]>, values: Float32Array): void {
  writer.write(values);
  writer.end();
}
