/**
 * Runs encoders on the CPU device and keeps what they leave: keys and values of each layer's attention to them, for as many rows as
 * the input had. A slot belongs to a sequence; beams share the memory of the one that they come from.
 */
import { CpuBuffer } from "../../device/cpu/cpu-buffer.ts";
import type { CpuDevice } from "../../device/cpu/cpu-device.ts";
import { CpuGraph } from "../../device/cpu/cpu-graph.ts";
import { CPU_TYPE_BYTES, type CpuTensorSpec } from "../../device/cpu/cpu-tensor.ts";
import type { DecoderConfig } from "../../models/config/decoder-config.ts";
import type { DecoderModel, LayerCache } from "../../models/cpu/decoder-model.ts";
import { type EncoderRows, numEncoderTensors, recordEncoder } from "../../models/cpu/encoder.ts";
import type { KvCacheType } from "../engine-spec.ts";
import { type EncoderInput, type EncoderLimits, encoderRows } from "../request/encoder-input.ts";
import type { StepEncoderInput, StepSequence } from "../step-runner.ts";

/** One encoder's rows as the decoder sees them. */
interface Memory {
  readonly buffer: CpuBuffer;
  readonly layers: readonly LayerCache[];
  /** Slots that hold it. */
  numSlots: number;
}

export interface EncoderParts {
  /** The model whose layers attend to the encoder. */
  readonly decoder: DecoderModel;
  readonly encoderConfig: DecoderConfig;
  readonly type: KvCacheType;
}

/** Inputs that the encoder of a model takes. */
export function encoderLimits({ audioStem, maxPositions: maxRows, vocabSize }: DecoderConfig): EncoderLimits {
  return audioStem === undefined
    ? { kind: "tokens", maxRows, vocabSize }
    : { kind: "frames", maxRows, width: audioStem.numMels };
}

/** Bytes of one row of the encoder, in all layers of the decoder. */
export function memoryBytesPerRow({ numLayers, numKvHeads, headDim }: DecoderConfig, type: KvCacheType): number {
  return 2 * numLayers * numKvHeads * headDim * CPU_TYPE_BYTES[type];
}

export class CpuEncoderMemory {
  readonly #device: CpuDevice;
  readonly #parts: EncoderParts;
  readonly #graph: CpuGraph;
  readonly #slots = new Map<number, Memory>();
  /** Keys and values inside the encoder, which all of its layers use in turn; as many rows as the longest input so far. */
  #scratch: CpuBuffer | undefined;

  constructor(device: CpuDevice, parts: EncoderParts) {
    this.#device = device;
    this.#parts = parts;
    this.#graph = new CpuGraph(device);
  }

  /** @throws Error for a slot whose encoder has not run */
  layersOf({ state }: StepSequence): readonly LayerCache[] {
    const memory = state === undefined ? undefined : this.#slots.get(state);
    if (memory === undefined) throw new Error(`step: the encoder of state ${state} has not run`);
    return memory.layers;
  }

  /** Pairs of slots [from, to, ...], one after the other. */
  share(pairs: Int32Array): void {
    for (let i = 0; i + 1 < pairs.length; i += 2) {
      const [from = 0, to = 0] = pairs.subarray(i, i + 2);
      const memory = this.#slots.get(from);
      if (memory === undefined) throw new Error(`step: stateCopies: the encoder of state ${from} has not run`);
      memory.numSlots += 1;
      this.#release(to);
      this.#slots.set(to, memory);
    }
  }

  /** One encoder after the other. @throws Error when the memory cannot be had */
  async fill(inputs: readonly StepEncoderInput[]): Promise<void> {
    for (const { state, input } of inputs) {
      this.#release(state);
      this.#slots.set(state, await this.#encode(input));
    }
  }

  close(): void {
    for (const slot of [...this.#slots.keys()]) this.#release(slot);
    this.#scratch?.close();
    this.#graph.close();
  }

  async #encode(input: EncoderInput): Promise<Memory> {
    const { decoder, type } = this.#parts;
    const numRows = encoderRows(input);
    const encoder = this.#encoder(numRows);
    const { numLayers, numKvHeads, headDim } = decoder.config;
    const buffer = new CpuBuffer(this.#device, cacheSpecs(numLayers, numRows, numKvHeads * headDim, type));
    try {
      const layers = cachePairs(buffer);
      this.#graph.begin(numEncoderTensors(encoder, decoder, numRows));
      recordEncoder(this.#graph, { encoder, decoder }, rowsOf(input, numRows), layers);
      await this.#graph.run(numRows);
      return { buffer, layers, numSlots: 1 };
    } catch (error) {
      buffer.close();
      throw error;
    }
  }

  /** The encoder as a model of its own, whose embedding is the decoder's. */
  #encoder(numRows: number): DecoderModel {
    const { decoder, encoderConfig: config } = this.#parts;
    const { encoder } = decoder.weights;
    if (encoder === undefined) throw new Error("a model without an encoder");
    const [shared] = cachePairs(this.#scratchOf(numRows));
    return {
      config,
      weights: { ...decoder.weights, ...encoder, segments: undefined },
      ropeMagnitudes: [],
      caches: config.layers.map(() => shared),
      states: [],
      adapters: new Map(),
    };
  }

  #scratchOf(numRows: number): CpuBuffer {
    const { encoderConfig } = this.#parts;
    const held = this.#scratch;
    if (held !== undefined && (held.tensors[0]?.shape[0] ?? 0) >= numRows) return held;
    held?.close();
    this.#scratch = undefined;
    const width = encoderConfig.numKvHeads * encoderConfig.headDim;
    this.#scratch = new CpuBuffer(this.#device, cacheSpecs(1, numRows, width, "f32"));
    return this.#scratch;
  }

  #release(slot: number): void {
    const memory = this.#slots.get(slot);
    if (memory === undefined) return;
    this.#slots.delete(slot);
    memory.numSlots -= 1;
    if (memory.numSlots === 0) memory.buffer.close();
  }
}

function rowsOf(input: EncoderInput, numRows: number): EncoderRows {
  return input.kind === "tokens" ? input : { kind: "frames", frames: input.values, numRows };
}

function cacheSpecs(numLayers: number, numRows: number, width: number, type: KvCacheType): CpuTensorSpec[] {
  return Array.from({ length: 2 * numLayers }, () => ({ type, shape: [numRows, width] }));
}

function cachePairs({ tensors }: CpuBuffer): readonly LayerCache[] {
  return tensors.flatMap((keys, i) => {
    const values = tensors[i + 1];
    return i % 2 === 0 && values !== undefined ? [{ keys, values }] : [];
  });
}
