/** Writes AWQ and GPTQ folders with generated integers. Deterministic. */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { safetensorsBytes, type TensorDraft } from "@nereid/server/formats/tensors/safetensors-writer.test-support";
import { parseDecoderConfig } from "@nereid/server/models/config/parse-decoder-config";
import { describeWeights } from "@nereid/server/models/weights/weight-plan";

export interface IntegerFolder {
  readonly method: "awq" | "gptq";
  readonly groupSize: number;
  /** Asymmetric zero points. */
  readonly hasZeros: boolean;
}

/** Layer matrices are integers, all else small floats; `config` is a Hugging Face config. */
export async function writeIntegerModel(
  folder: string,
  config: Readonly<Record<string, unknown>>,
  kind: IntegerFolder,
): Promise<void> {
  const at = { config: "config.json", generation: "generation_config.json" };
  const { config: decoder, weights } = parseDecoderConfig({ config, generation: undefined, at });
  const drafts: Record<string, TensorDraft> = {};
  let seed = 1;
  describeWeights(decoder, weights, weights.prefixes[0] ?? "", ({ sources }) => {
    for (const { name, shape } of sources) {
      const [outputs = 0, inputs = 0] = shape;
      const isMatrix = shape.length === 2 && name.includes(".layers.") && !name.endsWith(".gate.weight");
      const module = name.slice(0, -".weight".length);
      Object.assign(
        drafts,
        isMatrix ? layerTensors(module, outputs, inputs, kind, seed++) : { [name]: floats(shape, seed++) },
      );
    }
  });
  const own =
    kind.method === "awq"
      ? { quant_method: "awq", bits: 4, version: "gemm", zero_point: true }
      : { quant_method: "gptq", bits: 4, sym: !kind.hasZeros, desc_act: false };
  const quantization = { ...own, group_size: kind.groupSize };
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "config.json"), JSON.stringify({ ...config, quantization_config: quantization }));
  await writeFile(join(folder, "model.safetensors"), safetensorsBytes(drafts));
}

function floats(shape: readonly number[], seed: number): TensorDraft {
  const count = shape.reduce((product, size) => product * size, 1);
  const data = Float32Array.from({ length: count }, (_, i) => Math.sin(i * 12.9898 + seed));
  return { dtype: "F32", shape: [...shape], data };
}

const PER_WORD = 8;
/** GPTQ format version 1: zero points minus one. */
const MIDDLE_ZEROS = 0x7777_7777;

function layerTensors(
  name: string,
  outputs: number,
  inputs: number,
  { method, groupSize, hasZeros }: IntegerFolder,
  seed: number,
): Record<string, TensorDraft> {
  const numGroups = inputs / groupSize;
  const words = method === "awq" ? [inputs, outputs / PER_WORD] : [inputs / PER_WORD, outputs];
  const zeros = wordsOf((numGroups * outputs) / PER_WORD, seed + 7);
  return {
    [`${name}.qweight`]: { dtype: "I32", shape: words, data: wordsOf((inputs * outputs) / PER_WORD, seed) },
    [`${name}.qzeros`]: {
      dtype: "I32",
      shape: [numGroups, outputs / PER_WORD],
      data: hasZeros ? zeros : zeros.fill(MIDDLE_ZEROS),
    },
    [`${name}.scales`]: { dtype: "F16", shape: [numGroups, outputs], data: halves(numGroups * outputs) },
  };
}

function wordsOf(count: number, seed: number): Int32Array {
  return Int32Array.from({ length: count }, (_, i) => Math.imul(i * 7 + seed, 0x9e37_79b1));
}

/** From 2^-7 to 2^-6. */
function halves(count: number): Uint16Array {
  return Uint16Array.from({ length: count }, (_, i) => 0x2000 + ((i * 37) % 1024));
}
