/** Facts of a model from the headers of its files: architecture, size, types, context, memory. It reads no weight. */

import type { ServerError } from "@nereid/server/core/server-error";
import { chooseEngine, type EngineChoice } from "@nereid/server/engine/choose-engine";
import { planCpuMemory } from "@nereid/server/engine/cpu/memory-demand";
import { DEFAULT_ENGINE_CONFIG } from "@nereid/server/engine/engine-config";
import type { EngineName, EngineSpec } from "@nereid/server/engine/engine-spec";
import { contextLengthOf, planLlamaMemory } from "@nereid/server/engine/llama/memory-demand";
import { formatBytes } from "@nereid/server/files/progress-text";
import { ToolError } from "@nereid/server/files/tool-error";
import { readGgufSummary } from "@nereid/server/formats/gguf/gguf";
import { ggmlTypeName } from "@nereid/server/formats/gguf/type-names";
import type { TensorSource } from "@nereid/server/formats/tensors/tensor-source";
import { loadTokenizer } from "@nereid/server/formats/tokenizer/tokenizer-files";
import { openDecoder } from "../../checkpoint/open-decoder.ts";
import { findTokenizer } from "../../repository/create/find-tokenizer.ts";

export interface ModelFacts {
  /** Engine that computes it. */
  readonly engine: EngineChoice["engine"];
  /** As config.json names it: `LlamaForCausalLM`. */
  readonly architecture: string;
  readonly numParameters: number;
  /** Types of the stored weights, most bytes first. */
  readonly weightTypes: readonly string[];
  readonly weightBytes: number;
  /** Tokens of prompt and answer together. */
  readonly contextLength: number;
  /** Undefined: the tokenizer has none. */
  readonly chatTemplate: string | undefined;
}

/** Tokens of a block of the KV cache on the CPU, as the engine host has them. */
export const BLOCK_SIZE = 16;
/** Types in which floats are tried, widest first, until the model fits. Undefined: as the files have them. */
export const NARROWER = [undefined, "bf16", "q8_0", "q4_0"] as const;
const STEPS = [
  { size: 1e9, unit: "B" },
  { size: 1e6, unit: "M" },
  { size: 1e3, unit: "K" },
];

/** @throws ToolError naming what the files lack, or the engine that does not take them */
export async function describeModel(path: string, engine: EngineName = "auto"): Promise<ModelFacts> {
  const choice = await chooseEngine(path, engine).catch((cause: unknown) => {
    throw new ToolError(cause instanceof Error ? cause.message : String(cause), { cause });
  });
  return choice.engine === "llama.cpp" ? describeGguf(choice.path) : describeOwn(path);
}

/** A file for libllama, whose tensor types only that needs to know. */
async function describeGguf(path: string): Promise<ModelFacts> {
  const { metadata, tensors, fileBytes } = await readGgufSummary(path);
  const types = new Map<string, number>();
  for (const { type, shape } of tensors) {
    const name = ggmlTypeName(type);
    types.set(name, (types.get(name) ?? 0) + numElements(shape));
  }
  return {
    engine: "llama.cpp",
    architecture: String(metadata.get("general.architecture") ?? "unknown architecture"),
    numParameters: tensors.reduce((sum, { shape }) => sum + numElements(shape), 0),
    weightTypes: byAmount(types),
    weightBytes: fileBytes,
    contextLength: contextLengthOf(metadata),
    chatTemplate: await chatTemplateOf(path),
  };
}

async function describeOwn(path: string): Promise<ModelFacts> {
  const { parsed, files, tensors } = await openDecoder(path).catch((error: unknown) => {
    throw withArchitectures(error, path);
  });
  try {
    const types = bytesByType(tensors);
    return {
      engine: "nereid",
      architecture: architectureOf(files.config),
      numParameters: [...tensors.tensors.values()].reduce((sum, { shape }) => sum + numElements(shape), 0),
      weightTypes: byAmount(types),
      weightBytes: [...types.values()].reduce((sum, bytes) => sum + bytes, 0),
      contextLength: parsed.config.maxPositions,
      chatTemplate: await chatTemplateOf(path),
    };
  } finally {
    await tensors.close();
  }
}

/** One line: `LlamaForCausalLM, 12.4 M parameters in bf16 (24.8 MiB), context 2048 tokens`. */
export function factsLine({
  architecture,
  numParameters,
  weightTypes,
  weightBytes,
  contextLength,
}: ModelFacts): string {
  const types = weightTypes.slice(0, 2).join(" and ");
  const size = `${countText(numParameters)} parameters in ${types} (${formatBytes(weightBytes)})`;
  return `${architecture}, ${size}, context ${contextLength} tokens`;
}

/** For libllama, which takes the weights as they are. @throws ToolError with the numbers when they do not fit */
export async function planLlamaCpp(path: string, maxSequences: number): Promise<MemoryChoice> {
  const { path: file } = await chooseEngine(path, "llama.cpp");
  const spec = { engine: { ...DEFAULT_ENGINE_CONFIG, maxSequences }, kvCacheTokens: 0 };
  try {
    const plan = planLlamaMemory(await readGgufSummary(file), spec, BLOCK_SIZE);
    return { weightType: undefined, line: lineOf(plan.lines) };
  } catch (cause) {
    throw doesNotFit(cause);
  }
}

export interface MemoryChoice {
  /** The parameter `weight_type`; undefined: as the files have them. */
  readonly weightType: string | undefined;
  /** Need and free memory, in one line. */
  readonly line: string;
}

/**
 * Weights as they are where they fit, otherwise in the widest type that fits. A given type is taken or refused. `kvCacheTokens`: a
 * size of the cache that was asked for; 0 = a share of the free memory.
 * @throws ToolError with the numbers when none fits
 */
export async function chooseCpuMemory(
  modelDir: string,
  given: EngineSpec["weightType"],
  { maxSequences, kvCacheTokens = 0 }: { readonly maxSequences: number; readonly kvCacheTokens?: number },
  freeBytes?: number,
): Promise<MemoryChoice> {
  let refusal: unknown;
  for (const weightType of given === undefined ? NARROWER : [given]) {
    const engine = { ...DEFAULT_ENGINE_CONFIG, maxSequences };
    try {
      const plan = await planCpuMemory(
        { modelDir, engine, kvCacheTokens, numThreads: 0, weightType },
        BLOCK_SIZE,
        freeBytes,
      );
      return { weightType, line: lineOf(plan.lines) };
    } catch (error) {
      refusal ??= error;
    }
  }
  throw doesNotFit(refusal);
}

function lineOf(lines: readonly string[]): string {
  return lines.join("; ").replace(/^memory plan: /, "");
}

function doesNotFit(cause: unknown): ToolError {
  return new ToolError((cause as ServerError).message, {
    cause,
    fix: "Take a smaller model, a GGUF file of fewer bits (org/model:Q4_K_M), or a machine with more memory",
  });
}

/** A GGUF file of an architecture that is read from safetensors only, or not at all. */
function withArchitectures(error: unknown, path: string): unknown {
  const [, served, got] = /general\.architecture: expected (.*), got (\S+)$/.exec(String(error)) ?? [];
  if (served === undefined) return error;
  return new ToolError(`${path}: engine nereid does not serve GGUF files of the architecture '${got}', but ${served}`, {
    cause: error,
    fix: "Leave --engine away, or give --engine llama.cpp",
  });
}

function byAmount(types: ReadonlyMap<string, number>): readonly string[] {
  return [...types].sort(([, a], [, b]) => b - a).map(([type]) => type);
}

function bytesByType({ tensors }: TensorSource): Map<string, number> {
  const bytes = new Map<string, number>();
  for (const { dtype, widenedFrom, byteLength } of tensors.values()) {
    const type = (widenedFrom ?? dtype).replace(/^(?:F|BF)\d+$/, (float) => float.toLowerCase());
    bytes.set(type, (bytes.get(type) ?? 0) + byteLength);
  }
  return bytes;
}

function numElements(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

function architectureOf(config: unknown): string {
  const { architectures, architecture } = config as { architectures?: unknown; architecture?: unknown };
  const [first] = Array.isArray(architectures) ? architectures : [architecture];
  return typeof first === "string" ? first : "unknown architecture";
}

async function chatTemplateOf(path: string): Promise<string | undefined> {
  const tokenizer = await loadTokenizer(await findTokenizer(undefined, path)).catch((cause: unknown) => {
    if (cause instanceof ToolError) throw cause;
    throw new ToolError(cause instanceof Error ? cause.message : String(cause), { cause });
  });
  return tokenizer.chatTemplate;
}

function countText(count: number): string {
  const step = STEPS.find(({ size }) => count >= size);
  return step === undefined ? String(count) : `${(count / step.size).toFixed(1)} ${step.unit}`;
}
