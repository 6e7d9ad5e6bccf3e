/**
 * Reads a LoRA adapter from a PEFT folder: adapter_config.json and adapter_model.safetensors. Source: PEFT
 * documentation, "Checkpoint format". Untrusted files in; every size is checked against the decoder.
 */
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { readFloats } from "../tensors/read-floats.ts";
import { openSafetensorsFile, type Safetensors } from "../tensors/safetensors.ts";
import type { TensorSource } from "../tensors/tensor-source.ts";
import {
  type LoraAdapter,
  type LoraChange,
  type LoraTarget,
  type LoraTargets,
  loraBytes,
  MAX_LORA_CHANGES,
} from "./lora-adapter.ts";
import { isEnding, type PeftConfig, parsePeftConfig } from "./peft-config.ts";

const CONFIG_FILE = "adapter_config.json";
const WEIGHTS_FILE = "adapter_model.safetensors";
/** Module lists make some of these files longer than a model config. */
const MAX_CONFIG_BYTES: number = 4 << 20;
const NAME = /^base_model\.model\.(.+)\.lora_([AB])\.weight$/;
const FLOATS: readonly string[] = ["F32", "F16", "BF16"];

/** The folder's content after its names and sizes were checked against the decoder. */
export interface PeftSummary {
  readonly numBytes: number;
  readonly maxRank: number;
}

/** Checks the folder without reading tensor data. @throws Error naming file and tensor */
export async function inspectPeft(directory: string, targets: LoraTargets): Promise<PeftSummary> {
  const { file, pairs } = await openPeft(directory, targets);
  await file.close();
  return { numBytes: loraBytes({ changes: pairs }), maxRank: Math.max(...pairs.map(({ rank }) => rank)) };
}

/** @throws Error naming file and tensor */
export async function readPeft(directory: string, targets: LoraTargets): Promise<LoraAdapter> {
  const { file, pairs } = await openPeft(directory, targets);
  try {
    const changes: LoraChange[] = [];
    for (const { layer, target, rank, scale, name } of pairs) {
      const a = await readFloats(file, `${name}.lora_A.weight`);
      const b = await readFloats(file, `${name}.lora_B.weight`);
      for (let i = 0; i < b.length; i++) b[i] = (b[i] ?? 0) * scale;
      changes.push({ layer, target, rank, a, b });
    }
    return { changes };
  } finally {
    await file.close();
  }
}

interface Pair extends Omit<LoraChange, "a" | "b"> {
  /** Module names of its tensors, without ".lora_A.weight". */
  readonly name: string;
  readonly scale: number;
}

async function openPeft(
  directory: string,
  targets: LoraTargets,
): Promise<{ readonly file: Safetensors; readonly pairs: readonly Pair[] }> {
  const config = parsePeftConfig(await readJson(join(directory, CONFIG_FILE)), join(directory, CONFIG_FILE));
  const path = join(directory, WEIGHTS_FILE);
  const file = await openSafetensorsFile(path).catch(async (error: unknown) => {
    const names: readonly string[] = await readdir(directory).catch(() => []);
    if (names.includes("adapter_model.bin") && !names.includes(WEIGHTS_FILE))
      throw new Error(`${directory}: expected ${WEIGHTS_FILE}; adapter_model.bin is a pickle, which is not read`);
    throw error;
  });
  try {
    return { file, pairs: describePairs(file, config, targets, path) };
  } catch (error) {
    await file.close();
    throw error;
  }
}

function describePairs(file: TensorSource, config: PeftConfig, targets: LoraTargets, path: string): readonly Pair[] {
  refuseTargets(config, targets, path);
  const modules = new Set<string>();
  for (const name of file.tensors.keys()) {
    const [, module] = NAME.exec(name) ?? [];
    if (module === undefined) {
      throw new Error(`${path}: tensor "${name.slice(0, 120)}": expected a name like base_model.model.*.lora_A.weight`);
    }
    modules.add(module);
  }
  if (modules.size === 0 || modules.size > MAX_LORA_CHANGES)
    throw new Error(`${path}: expected 1 to ${MAX_LORA_CHANGES} modules, got ${modules.size}`);
  return Array.from(modules, (module) => describePair(file, module, config, targets, path));
}

/** Refuses a listed module that no adapter can change, before its tensors are read. */
function refuseTargets({ targetModules }: PeftConfig, { modules }: LoraTargets, path: string): void {
  const known = [...modules.keys()];
  const unknown = targetModules.find((name) => {
    const last = name.slice(name.lastIndexOf(".") + 1);
    return !known.some((module) => isEnding(module, last));
  });
  if (unknown === undefined) return;
  throw new Error(
    `${path}: target module "${unknown.slice(0, 80)}" is not supported; those of this model are ${known.join(", ")}`,
  );
}

function describePair(
  file: TensorSource,
  module: string,
  config: PeftConfig,
  targets: LoraTargets,
  path: string,
): Pair {
  const { layer, target } = placeOf(module, targets, path);
  const name = `base_model.model.${module}`;
  const rank = config.rankOf(module);
  expectTensor(file, `${name}.lora_A.weight`, [rank, target.inputs], path);
  expectTensor(file, `${name}.lora_B.weight`, [target.outputs, rank], path);
  return { layer, target, rank, scale: config.scaleOf(module), name };
}

function placeOf(
  module: string,
  targets: LoraTargets,
  path: string,
): { readonly layer: number; readonly target: LoraTarget } {
  const refusal = (why: string): Error => new Error(`${path}: module "${module.slice(0, 120)}" ${why}`);
  const [before = "", after = ""] = targets.layer.split("#");
  const prefix = targets.prefixes.find((one) => module.startsWith(one + before));
  const rest = prefix === undefined ? "" : module.slice(prefix.length + before.length);
  const end = rest.indexOf(after);
  const digits = rest.slice(0, Math.max(0, end));
  if (!/^\d{1,6}$/.test(digits)) throw refusal("is no layer of this model: adapters of it are not supported");
  const layer = Number(digits);
  const name = rest.slice(end + after.length);
  const target = targets.modules.get(name);
  if (layer >= targets.numLayers) throw refusal(`is of layer ${layer}, the model has ${targets.numLayers}`);
  const isExperts = targets.expertLayers.has(layer) && target?.linear.startsWith("mlp") === true;
  if (target === undefined || isExperts) {
    throw refusal(`is not supported; those of this model are ${[...targets.modules.keys()].join(", ")}`);
  }
  return { layer, target };
}

function expectTensor(file: TensorSource, name: string, shape: readonly number[], path: string): void {
  const tensor = file.tensors.get(name);
  if (tensor === undefined) throw new Error(`${path}: lacks tensor "${name}"`);
  const fits = tensor.shape.length === shape.length && shape.every((size, i) => size === tensor.shape[i]);
  if (fits && FLOATS.includes(tensor.dtype)) return;
  const got = `${tensor.dtype}[${tensor.shape.join(", ")}]`;
  throw new Error(`${path}: tensor "${name}": expected ${FLOATS.join("|")}[${shape.join(", ")}], got ${got}`);
}

async function readJson(path: string): Promise<unknown> {
  const { size } = await stat(path).catch((cause: unknown) => {
    throw new Error(`${path}: expected a file`, { cause });
  });
  if (size > MAX_CONFIG_BYTES) throw new Error(`${path}: expected at most ${MAX_CONFIG_BYTES} bytes, got ${size}`);
  try {
    return JSON.parse(await readFile(path, "utf8"));
  } catch (cause) {
    throw new Error(`${path}: expected JSON`, { cause });
  }
}
