/**
 * Runs texts through a model and sums up what enters each of its linear layers. What becomes of the sums is decided
 * elsewhere.
 */
import { CpuDevice } from "../device/cpu/cpu-device.ts";
import { CpuGraph } from "../device/cpu/cpu-graph.ts";
import type { CpuTensor } from "../device/cpu/cpu-tensor.ts";
import { CpuKvCache } from "../engine/cpu-kv-cache.ts";
import { type DecoderModel, numDecoderTensors, recordDecoder } from "../models/decoder.ts";
import { loadDecoderWeights } from "../models/decoder-weights.ts";
import { ropeFactors } from "../models/rope-factors.ts";
import type { LayerWeights } from "../models/weight-plan.ts";
import { chooseType, type OpenedDecoder } from "./convert-checkpoint.ts";

/** Of each input of a linear layer, over all tokens. */
export interface InputStats {
  numTokens: number;
  readonly meanAbs: Float64Array;
  readonly meanSquare: Float64Array;
  readonly maxAbs: Float64Array;
}

/** Those of a layer that read the same rows are one. */
export type LinearSite = "qkv" | "attentionOut" | "mlpIn" | "mlpOut";

export function siteKey(layer: number, site: LinearSite): string {
  return `${layer} ${site}`;
}

const BLOCK_SIZE = 16;

/** By `siteKey`; layers of experts have none for what enters the experts. */
export async function calibrate(
  { parsed, tensors }: OpenedDecoder,
  sequences: readonly Int32Array[],
  onSequence: () => void,
): Promise<ReadonlyMap<string, InputStats>> {
  const { config } = parsed;
  const longest = Math.max(1, ...sequences.map(({ length }) => length));
  const device = new CpuDevice();
  const ropes = config.ropes.map((rope) => ropeFactors(rope, longest));
  const type = chooseType("auto", parsed, tensors);
  const weights = await loadDecoderWeights(device, parsed, tensors, type, ropes);
  const numBlocks = Math.ceil(longest / BLOCK_SIZE);
  const cache = new CpuKvCache(device, config, { numBlocks, numHostBlocks: 0, blockSize: BLOCK_SIZE, type: "f32" });
  const graph = new CpuGraph(device);
  try {
    const model: DecoderModel = {
      config,
      weights,
      ropeMagnitudes: ropes.map(({ magnitude }) => magnitude),
      caches: cache.layers,
      adapters: new Map(),
    };
    const observer = new Observer(graph, sitesByWeight(weights.layers));
    for (const tokenIds of sequences) {
      await runSequence(graph, model, tokenIds, observer);
      onSequence();
    }
    return observer.finished();
  } finally {
    graph.close();
    cache.close();
    weights.close();
    await device.close();
  }
}

async function runSequence(
  graph: CpuGraph,
  model: DecoderModel,
  tokenIds: Int32Array,
  observer: Observer,
): Promise<void> {
  const length = tokenIds.length;
  const places = Int32Array.from({ length }, (_, i) => i);
  const blockTable = Int32Array.from({ length: Math.ceil(length / BLOCK_SIZE) }, (_, i) => i);
  const sequences = [{ queryStart: 0, queryLength: length, contextLength: length, blockTable }];
  graph.begin(numDecoderTensors(model.config, sequences));
  // Logits of every token, so that all of them pass the last layer too.
  const batch = { tokenIds, positions: places, slots: places, sequences, logitRows: places, blockSize: BLOCK_SIZE };
  recordDecoder(graph, model, batch);
  await graph.run();
  observer.collect();
}

function sitesByWeight(layers: readonly LayerWeights<CpuTensor>[]): ReadonlyMap<CpuTensor["handle"], string> {
  const sites = new Map<CpuTensor["handle"], string>();
  for (const [i, { qkv, attentionOut, mlp }] of layers.entries()) {
    sites.set(qkv.weight.handle, siteKey(i, "qkv"));
    sites.set(attentionOut.weight.handle, siteKey(i, "attentionOut"));
    // What a router reads is what the experts read.
    sites.set("router" in mlp ? mlp.router.handle : mlp.in.weight.handle, siteKey(i, "mlpIn"));
    if (!("router" in mlp)) sites.set(mlp.out.weight.handle, siteKey(i, "mlpOut"));
  }
  return sites;
}

/** Marks what enters the layers while a graph is recorded, and adds it up once it has run. */
class Observer {
  readonly #graph: CpuGraph;
  readonly #stats = new Map<string, InputStats>();
  #seen: { readonly key: string; readonly x: CpuTensor }[] = [];

  constructor(graph: CpuGraph, sites: ReadonlyMap<CpuTensor["handle"], string>) {
    this.#graph = graph;
    graph.onProduct = (weight, x) => {
      const key = sites.get(weight.handle);
      if (key === undefined) return;
      graph.output(x);
      this.#seen.push({ key, x });
    };
  }

  collect(): void {
    for (const { key, x } of this.#seen) {
      const [numRows = 0, width = 0] = x.shape;
      const rows = new Float32Array(numRows * width);
      this.#graph.read(x, rows);
      addRows(this.#statsOf(key, width), rows, width);
    }
    this.#seen = [];
  }

  /** Sums as means. */
  finished(): ReadonlyMap<string, InputStats> {
    for (const { numTokens, meanAbs, meanSquare } of this.#stats.values()) {
      for (let i = 0; i < meanAbs.length; i++) {
        meanAbs[i] = (meanAbs[i] ?? 0) / numTokens;
        meanSquare[i] = (meanSquare[i] ?? 0) / numTokens;
      }
    }
    return this.#stats;
  }

  #statsOf(key: string, width: number): InputStats {
    const known = this.#stats.get(key);
    if (known !== undefined) return known;
    const zeros = (): Float64Array => new Float64Array(width);
    const stats = { numTokens: 0, meanAbs: zeros(), meanSquare: zeros(), maxAbs: zeros() };
    this.#stats.set(key, stats);
    return stats;
  }
}

function addRows(stats: InputStats, rows: Float32Array, width: number): void {
  const { meanAbs, meanSquare, maxAbs } = stats;
  for (let start = 0; start < rows.length; start += width) {
    for (let i = 0; i < width; i++) {
      const value = Math.abs(rows[start + i] ?? 0);
      meanAbs[i] = (meanAbs[i] ?? 0) + value;
      meanSquare[i] = (meanSquare[i] ?? 0) + value * value;
      if (value > (maxAbs[i] ?? 0)) maxAbs[i] = value;
    }
  }
  stats.numTokens += rows.length / width;
}
