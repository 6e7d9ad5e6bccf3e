/** A draft head on the CPU device of its model: weights, a cache of one layer, and one graph a pass. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { expectAt } from "../../core/expect-at.ts";
import { CpuGraph } from "../../device/cpu/cpu-graph.ts";
import { CPU_TYPE_BYTES, numElements } from "../../device/cpu/cpu-tensor.ts";
import { PlacedTensors } from "../../device/cpu/placed-tensors.ts";
import { readHfConfig } from "../../formats/hf/config.ts";
import { type ModelFiles, openModelFiles } from "../../formats/hf/model-files.ts";
import type { TensorSource } from "../../formats/tensors/tensor-source.ts";
import type { DecoderConfig } from "../../models/config/decoder-config.ts";
import { type DraftHeadConfig, isEagleHead, parseEagleHead, parseMtpHead } from "../../models/config/draft-head.ts";
import { kvBytesPerToken } from "../../models/config/kv-bytes.ts";
import { parseDecoderConfig } from "../../models/config/parse-decoder-config.ts";
import { ropeFactors } from "../../models/config/rope-factors.ts";
import { type CpuDraftHead, numHeadTensors, recordDraftHead } from "../../models/cpu/draft-head.ts";
import { fillTensor, type TypedPlan, typePlan } from "../../models/cpu/weights.ts";
import { type DraftHeadWeights, describeDraftHead } from "../../models/weights/draft-head-plan.ts";
import type { RequestedType } from "../../models/weights/weight-types.ts";
import type { EngineSpec } from "../engine-spec.ts";
import type { DraftHead, HeadResult, HeadStep } from "../speculation/draft-head.ts";
import type { DecoderCpuRunner } from "./cpu-runner.ts";
import { CpuKvCache } from "./kv-cache.ts";

export interface CpuDraftHeadOptions {
  /** Folder of an EAGLE-3 head, or of the model itself for its layer of multi-token prediction. */
  readonly headDir: string;
  readonly weightType?: RequestedType | undefined;
  /** Blocks for drafts beyond what the model has computed. */
  readonly numSpareBlocks: number;
}

/** Folder of the head that a model drafts with; undefined: it has none, or a draft model. */
export async function findDraftHead({
  modelDir,
  draftModelDir,
  usesMtp,
}: Pick<EngineSpec, "modelDir" | "draftModelDir" | "usesMtp">): Promise<string | undefined> {
  if (usesMtp === true) return modelDir;
  if (draftModelDir === undefined || !existsSync(join(draftModelDir, "config.json"))) return undefined;
  return isEagleHead((await readHfConfig(draftModelDir)).config) ? draftModelDir : undefined;
}

/** Bytes of the weights of a head, and of a token in its cache. @throws Error as `createCpuDraftHead()` does */
export async function draftHeadDemand(
  headDir: string,
  config: DecoderConfig,
  weightType: RequestedType | undefined,
): Promise<{ readonly weightBytes: number; readonly bytesPerToken: number }> {
  const { files, tensors } = await openModelFiles(headDir);
  try {
    const head = parseHead(files, tensors, { config });
    let weightBytes = 0;
    describeDraftHead(head, (plan) => {
      const { shape, type } = typePlan(plan, tensors, weightType);
      weightBytes += numElements(shape) * CPU_TYPE_BYTES[type];
    });
    return { weightBytes, bytesPerToken: kvBytesPerToken(head.config, CPU_TYPE_BYTES.f32) };
  } finally {
    await tensors.close();
  }
}

/** Takes nothing over: it is closed before its model. @throws Error naming the file, field or tensor that does not fit */
export async function createCpuDraftHead(runner: DecoderCpuRunner, options: CpuDraftHeadOptions): Promise<DraftHead> {
  const { files, tensors } = await openModelFiles(options.headDir);
  try {
    return await loadHead(runner, parseHead(files, tensors, runner), tensors, options);
  } finally {
    await tensors.close();
  }
}

function parseHead(
  files: ModelFiles["files"],
  { tensors }: TensorSource,
  { config }: Pick<DecoderCpuRunner, "config">,
): DraftHeadConfig {
  if (isEagleHead(files.config)) return parseEagleHead(files, config);
  return parseMtpHead(parseDecoderConfig(files), (name) => tensors.has(name), files.at.config);
}

async function loadHead(
  runner: DecoderCpuRunner,
  head: DraftHeadConfig,
  files: TensorSource,
  { weightType, numSpareBlocks }: CpuDraftHeadOptions,
): Promise<DraftHead> {
  const { device } = runner.shared;
  const plans: TypedPlan[] = [];
  describeDraftHead(head, (plan) => plans.push(typePlan(plan, files, weightType)));
  const ropes = head.config.ropes.map((rope) => ropeFactors(rope, head.config.maxPositions));
  const divisors = ropes.flatMap((rope) => rope.divisors ?? []);
  const specs = divisors.map(({ length }) => ({
    type: "f32" as const,
    shape: [length] as const,
    isGemmOperand: false,
  }));
  const placed = new PlacedTensors(device, [...plans, ...specs]);
  try {
    for (const [i, plan] of plans.entries()) {
      const writer = placed.writer(i);
      await fillTensor(device.ggml, writer, plan, files);
      writer.end();
    }
    for (const [i, values] of divisors.entries()) {
      const writer = placed.writer(plans.length + i);
      writer.write(values);
      writer.end();
    }
    let next = 0;
    const weights = describeDraftHead(head, () => expectAt(placed.tensors, next++));
    const ropeDivisors = ropes.map((rope) => (rope.divisors && expectAt(placed.tensors, next++)) ?? undefined);
    const loaded = { head, weights, ropeDivisors, ropeMagnitudes: ropes.map(({ magnitude }) => magnitude) };
    const tokens = head.hasOwnOutput ? await readTokens(files, head.config.vocabSize, runner.vocabSize) : undefined;
    return new DraftHeadOnCpu(runner, loaded, { placed, tokens, numSpareBlocks });
  } catch (error) {
    placed.close();
    throw error;
  }
}

/** Tensor `d2t`: how far the token of an output row lies behind the row. @throws Error for tokens beyond the vocabulary */
async function readTokens(
  files: TensorSource,
  draftVocabSize: number,
  vocabSize: number,
): Promise<Int32Array | undefined> {
  const stored = files.tensors.get("d2t");
  if (stored === undefined) {
    if (draftVocabSize === vocabSize) return undefined;
    throw new Error(`tensor "d2t": expected the tokens of ${draftVocabSize} output rows, got none`);
  }
  const [length] = stored.shape;
  if (stored.dtype !== "I64" || length !== draftVocabSize)
    throw new Error(`tensor "d2t": expected I64 [${draftVocabSize}], got ${stored.dtype} [${stored.shape.join(", ")}]`);
  const bytes = new Uint8Array(8 * draftVocabSize);
  await files.read("d2t", bytes);
  const offsets = new BigInt64Array(bytes.buffer);
  const tokens = Int32Array.from(offsets, (offset, row) => Number(offset) + row);
  const wrong = tokens.findIndex((token) => token < 0 || token >= vocabSize);
  if (wrong >= 0)
    throw new Error(`tensor "d2t": row ${wrong}: expected a token below ${vocabSize}, got ${tokens[wrong]}`);
  return tokens;
}

type Tensor = PlacedTensors["tensors"][number];

interface LoadedHead {
  readonly head: DraftHeadConfig;
  readonly weights: DraftHeadWeights<Tensor>;
  readonly ropeDivisors: readonly (Tensor | undefined)[];
  readonly ropeMagnitudes: readonly number[];
}

interface HeadParts {
  readonly placed: PlacedTensors;
  readonly tokens: Int32Array | undefined;
  readonly numSpareBlocks: number;
}

class DraftHeadOnCpu implements DraftHead {
  readonly observed: DraftHead["observed"];
  readonly observedSize: number;
  readonly hiddenSize: number;
  readonly draftVocabSize: number;
  readonly tokens: Int32Array | undefined;
  readonly vocabSize: number;
  readonly blockSize: number;
  readonly maxPositions: number;
  readonly firstSpareBlock: number;
  readonly numSpareBlocks: number;
  readonly #head: CpuDraftHead;
  readonly #placed: PlacedTensors;
  readonly #cache: CpuKvCache;
  readonly #graph: CpuGraph;
  #isClosed = false;

  constructor(runner: DecoderCpuRunner, loaded: LoadedHead, { placed, tokens, numSpareBlocks }: HeadParts) {
    const { device, model } = runner.shared;
    const { config, kind, observed } = loaded.head;
    const { blockSize, numBlocks, numHostBlocks, vocabSize } = runner;
    this.observed = observed;
    this.hiddenSize = config.hiddenSize;
    this.observedSize = (observed === "output" ? 1 : observed.layers.length) * config.hiddenSize;
    this.tokens = tokens;
    this.vocabSize = vocabSize;
    this.blockSize = blockSize;
    this.maxPositions = runner.maxPositions;
    this.firstSpareBlock = numBlocks + numHostBlocks;
    this.numSpareBlocks = numSpareBlocks;
    this.#placed = placed;
    // Host blocks keep their numbers here, where all is host memory.
    const sizes = {
      numBlocks: this.firstSpareBlock + numSpareBlocks,
      numHostBlocks: 0,
      blockSize,
      type: "f32" as const,
    };
    this.#cache = new CpuKvCache(device, config, sizes);
    this.#graph = new CpuGraph(device);
    const { layer, norm, output, embeddingNorm, hiddenNorm, join } = loaded.weights;
    const own = output === undefined ? model.weights.output : { weight: output, bias: undefined };
    this.draftVocabSize = own.weight.shape[0] ?? 0;
    this.#head = {
      kind,
      embeddingNorm,
      hiddenNorm,
      join,
      model: {
        config,
        weights: { ...model.weights, layers: [layer], norm, output: own, ropeDivisors: loaded.ropeDivisors },
        ropeMagnitudes: loaded.ropeMagnitudes,
        caches: this.#cache.layers,
        states: [],
        adapters: new Map(),
      },
    };
  }

  async run({ rows, areObserved, ...step }: HeadStep): Promise<HeadResult> {
    this.#graph.begin(numHeadTensors(this.#head, step.sequences));
    const batch = { ...step, sequences: step.sequences.map(withoutAdapter), blockSize: this.blockSize };
    const made = recordDraftHead(this.#graph, this.#head, batch, { values: rows, areObserved });
    await this.#graph.run(step.tokenIds.length);
    const numRows = step.logitRows.length;
    const logits = new Float32Array(numRows * this.draftVocabSize);
    const hidden = new Float32Array(numRows * this.hiddenSize);
    this.#graph.read(made.logits, logits);
    this.#graph.read(made.hidden, hidden);
    return { logits, hidden };
  }

  copyBlocks(pairs: Int32Array): void {
    this.#cache.copyBlocks(pairs);
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#graph.close();
    this.#cache.close();
    this.#placed.close();
  }
}

function withoutAdapter<T extends object>(sequence: T): T & { readonly adapter: undefined } {
  return { ...sequence, adapter: undefined };
}
