/**
 * LoRA adapters of the llama.cpp engine: GGUF files that libllama reads. Source: convert_lora_to_gguf.py of llama.cpp
 * 0.5.0 for the keys, and the names of the tensors.
 */

import { stat } from "node:fs/promises";
import { basename } from "node:path";
import type { LlamaContext } from "../../device/llama/llama-context.ts";
import type { LlamaModel } from "../../device/llama/llama-model.ts";
import { findGguf } from "../../formats/gguf/find-file.ts";
import { type GgufSummary, readGgufSummary } from "../../formats/gguf/gguf.ts";
import { type LoraAdapter, type LoraTargets, MAX_LORA_RANK } from "../../formats/lora/lora-adapter.ts";
import { checkAdapters } from "../request/check-adapters.ts";
import type { AdapterFormat, AdapterMemory, StepSequence } from "../step-runner.ts";

/** No matrices of ours: adapters that requests bring in TensorRT-LLM's layout are refused. */
const NO_TARGETS: LoraTargets = {
  numLayers: 0,
  expertLayers: new Set(),
  prefixes: [],
  layer: "",
  modules: new Map(),
  moduleIds: new Map(),
};

export class LlamaAdapters implements AdapterMemory {
  readonly targets: LoraTargets = NO_TARGETS;
  readonly format: AdapterFormat;
  readonly #model: LlamaModel;
  readonly #context: LlamaContext;
  readonly #loaded = new Map<number, bigint>();
  /** Given up, and perhaps still set in the context. */
  #retired: { readonly id: number; readonly address: bigint }[] = [];
  #current: number | undefined;
  #nextId = 1;

  constructor(model: LlamaModel, context: LlamaContext, architecture: string) {
    this.#model = model;
    this.#context = context;
    this.format = ggufAdapterFormat(architecture);
  }

  bytesOf({ file }: LoraAdapter): number {
    return file?.numBytes ?? 0;
  }

  async load({ file }: LoraAdapter): Promise<number> {
    if (file === undefined) throw new Error("expected an adapter in a GGUF file");
    const address = await this.#model.loadAdapter(file.path);
    const id = this.#nextId++;
    this.#loaded.set(id, address);
    return id;
  }

  /** Frees it before the next step. */
  unload(id: number): void {
    const address = this.#loaded.get(id);
    if (address !== undefined) this.#retired.push({ id, address });
    this.#loaded.delete(id);
  }

  /** @throws Error naming the first sequence whose adapter is not there */
  check(sequences: readonly StepSequence[]): void {
    checkAdapters(sequences, this.#loaded);
  }

  /** Between steps: frees what was given up. Gives the numbers, of which nothing computed may be used again. */
  sweep(): readonly number[] {
    if (this.#retired.length === 0) return [];
    this.use(undefined);
    const retired = this.#retired;
    this.#retired = [];
    for (const { address } of retired) this.#model.freeAdapter(address);
    return retired.map(({ id }) => id);
  }

  /** For the next calls. */
  use(id: number | undefined): void {
    if (id === this.#current) return;
    const address = id === undefined ? undefined : this.#loaded.get(id);
    this.#context.setAdapters(address === undefined ? [] : [address], address === undefined ? [] : [1]);
    this.#current = id;
  }
}

/** A GGUF file, or the only one of a folder. */
function ggufAdapterFormat(architecture: string): AdapterFormat {
  return {
    inspect: async (path) => {
      const { summary } = await openAdapter(path, architecture);
      return { maxRank: rankOf(summary, path) };
    },
    read: async (path) => {
      const { file, summary } = await openAdapter(path, architecture);
      rankOf(summary, path);
      const { mtimeMs, size } = await stat(file);
      return { changes: [], file: { path: file, numBytes: size, stamp: `${file} ${mtimeMs} ${size}` } };
    },
  };
}

async function openAdapter(path: string, architecture: string): Promise<{ file: string; summary: GgufSummary }> {
  const file = await findGguf(path);
  if (file === undefined || !file.endsWith(".gguf")) {
    throw new Error(
      `${path}: expected a GGUF file of an adapter, which the llama.cpp engine takes: convert it with llama.cpp's convert_lora_to_gguf.py`,
    );
  }
  const summary = await readGgufSummary(file);
  const expect = (key: string, expected: string): void => {
    const got = summary.metadata.get(key);
    if (got === expected) return;
    const shown = got === undefined ? "nothing" : String(got).slice(0, 80);
    throw new Error(`${basename(file)}: ${key}: expected ${expected}, got ${shown}`);
  };
  expect("general.type", "adapter");
  expect("adapter.type", "lora");
  expect("general.architecture", architecture);
  return { file, summary };
}

/** The largest of its matrices `*.lora_a`, [rank, inputs]. */
function rankOf({ tensors }: GgufSummary, path: string): number {
  const ranks = tensors.filter(({ name }) => name.endsWith(".lora_a")).map(({ shape }) => shape.at(-2) ?? 0);
  const largest = Math.max(0, ...ranks);
  if (largest >= 1 && largest <= MAX_LORA_RANK) return largest;
  throw new Error(`${path}: expected matrices *.lora_a of 1 to ${MAX_LORA_RANK} rows, got ${largest}`);
}
