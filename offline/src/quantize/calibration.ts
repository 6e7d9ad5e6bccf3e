/** Runs texts through a model on the CPU and accumulates statistics of the inputs of each linear layer. */
import { CpuDevice } from "@nereid/server/device/cpu/cpu-device";
import { CpuGraph } from "@nereid/server/device/cpu/cpu-graph";
import type { CpuTensor } from "@nereid/server/device/cpu/cpu-tensor";
import { CpuKvCache } from "@nereid/server/engine/cpu/kv-cache";
import { ropeFactors } from "@nereid/server/models/config/rope-factors";
import { numDecoderTensors, recordDecoder } from "@nereid/server/models/cpu/decoder";
import type { DecoderModel } from "@nereid/server/models/cpu/decoder-model";
import { loadDecoderWeights } from "@nereid/server/models/cpu/weights";
import { chooseCheckpointType } from "../checkpoint/convert-checkpoint.ts";
import type { OpenedDecoder } from "../checkpoint/open-decoder.ts";
import { type InputStats, StatsCollector, sitesByMatrix } from "./input-stats.ts";

const BLOCK_SIZE = 16;

/** By `siteKey`; expert layers have none for the experts' inputs. */
export async function calibrate(
  { parsed, tensors }: OpenedDecoder,
  sequences: readonly Int32Array[],
  onSequence: () => void,
): Promise<ReadonlyMap<string, InputStats>> {
  const { config } = parsed;
  const longest = Math.max(1, ...sequences.map(({ length }) => length));
  const device = new CpuDevice();
  const ropes = config.ropes.map((rope) => ropeFactors(rope, longest));
  const type = chooseCheckpointType("auto", parsed, tensors);
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
      states: [],
      adapters: new Map(),
    };
    const observer = new Observer(
      graph,
      sitesByMatrix(weights.layers, ({ handle }) => handle),
    );
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
  // Request logits of every token, so that all tokens pass the last layer.
  const batch = { tokenIds, positions: places, slots: places, sequences, logitRows: places, blockSize: BLOCK_SIZE };
  recordDecoder(graph, model, batch);
  await graph.run();
  observer.collect();
}

/** Marks layer inputs while a graph is recorded, and accumulates them after it has run. */
class Observer {
  readonly #graph: CpuGraph;
  readonly #stats = new StatsCollector();
  #seen: { readonly key: string; readonly x: CpuTensor }[] = [];

  constructor(graph: CpuGraph, sites: ReadonlyMap<CpuTensor["handle"], string>) {
    this.#graph = graph;
    graph.onGemm = (weight, x) => {
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
      this.#stats.add(key, rows, width);
    }
    this.#seen = [];
  }

  finished(): ReadonlyMap<string, InputStats> {
    return this.#stats.finished();
  }
}
