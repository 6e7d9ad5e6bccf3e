/**
 * Adapters in the forward pass: their matrices on the device, and what each of them adds to the linear layers for the rows
 * that carry it. It knows no files and no requests; an adapter is a number.
 */
import {
  LORA_TENSORS_PER_LINEAR,
  LORA_TENSORS_PER_PART,
  type LoraPart,
  type RecordedRows,
  recordLora,
} from "../../../kernels/lora/lora.ggml.ts";
import { groupKeptRows, groupRows, type LoraGroup, type LoraSpan } from "../../../kernels/lora/lora-rows.ts";
import { CpuBuffer } from "../../device/cpu/cpu-buffer.ts";
import type { CpuDevice } from "../../device/cpu/cpu-device.ts";
import type { CpuGraph } from "../../device/cpu/cpu-graph.ts";
import type { CpuTensor } from "../../device/cpu/cpu-tensor.ts";
import type { LoraAdapter, LoraLinear } from "../../formats/lora/lora-adapter.ts";

/** The matrices of one adapter. */
export interface AdapterWeights {
  /** By layer; no entry where the adapter changes nothing. */
  readonly layers: ReadonlyMap<number, ReadonlyMap<LoraLinear, readonly LoraPart[]>>;
  close(): void;
}

/** Parts of a linear layer, of which an adapter changes three at most. */
const MAX_PARTS = 3;
const NUM_LINEARS = 4;

/** Graph tensors that each adapter in a step needs in each layer, at most; and of the step, for the ids of its rows. */
export const LORA_TENSORS_PER_LAYER: number =
  NUM_LINEARS * (LORA_TENSORS_PER_LINEAR + MAX_PARTS * LORA_TENSORS_PER_PART);
export const LORA_TENSORS_PER_ADAPTER = 2;

/** Copies an adapter to the device. @throws Error when its memory cannot be had */
export function placeAdapter(device: CpuDevice, { changes }: LoraAdapter): AdapterWeights {
  const specs = changes.flatMap(({ rank, target }) => [
    { type: "f32", shape: [rank, target.inputs] } as const,
    { type: "f32", shape: [target.outputs, rank] } as const,
  ]);
  const buffer = new CpuBuffer(device, specs);
  const layers = new Map<number, Map<LoraLinear, LoraPart[]>>();
  for (const [i, { layer, target, a, b }] of changes.entries()) {
    const [tensorA, tensorB] = buffer.tensors.slice(2 * i, 2 * i + 2);
    if (tensorA === undefined || tensorB === undefined) throw new Error("expected two tensors for each change");
    buffer.write(tensorA, a);
    buffer.write(tensorB, b);
    const linears = layers.get(layer) ?? new Map<LoraLinear, LoraPart[]>();
    layers.set(layer, linears);
    const parts = linears.get(target.linear) ?? [];
    linears.set(target.linear, parts);
    parts.push({ a: tensorA, b: tensorB, column: target.column });
  }
  return { layers, close: () => buffer.close() };
}

/** A linear layer, whose rows are all tokens or those in `kept`, which must be the same at each call. */
export interface AdaptedLinear {
  readonly layer: number;
  readonly linear: LoraLinear;
  readonly kept: Int32Array | undefined;
}

/** The adapters of one step. Ids of rows enter the graph when a layer first asks, for unused inputs are errors. */
export class StepAdapters {
  readonly #graph: CpuGraph;
  readonly #spans: readonly LoraSpan[];
  readonly #adapters: ReadonlyMap<number, AdapterWeights>;
  #all: readonly RecordedGroup[] | undefined;
  #kept: readonly RecordedGroup[] | undefined;

  constructor(graph: CpuGraph, spans: readonly LoraSpan[], adapters: ReadonlyMap<number, AdapterWeights>) {
    this.#graph = graph;
    this.#spans = spans;
    this.#adapters = adapters;
  }

  /** Adds the terms of adapters to what the layer made of `x`; gives the result in place of `y`. */
  change({ layer, linear, kept }: AdaptedLinear, x: CpuTensor, y: CpuTensor): CpuTensor {
    let changed = y;
    for (const { adapter, rows } of this.#groups(kept)) {
      const parts = this.#adapters.get(adapter)?.layers.get(layer)?.get(linear);
      if (parts !== undefined) changed = recordLora(this.#graph, { x, y: changed, rows: rows.get(), parts });
    }
    return changed;
  }

  #groups(kept: Int32Array | undefined): readonly RecordedGroup[] {
    if (kept === undefined) {
      this.#all ??= groupRows(this.#spans).map((group) => this.#recorded(group));
      return this.#all;
    }
    this.#kept ??= groupKeptRows(this.#spans, kept).map((group) => this.#recorded(group));
    return this.#kept;
  }

  #recorded({ adapter, rows }: LoraGroup): RecordedGroup {
    return { adapter, rows: new LazyRows(this.#graph, rows) };
  }
}

interface RecordedGroup {
  readonly adapter: number;
  readonly rows: LazyRows;
}

class LazyRows {
  readonly #graph: CpuGraph;
  readonly #rows: LoraGroup["rows"];
  #recorded: RecordedRows | undefined;

  constructor(graph: CpuGraph, rows: LoraGroup["rows"]) {
    this.#graph = graph;
    this.#rows = rows;
  }

  get(): RecordedRows {
    this.#recorded ??= this.#record();
    return this.#recorded;
  }

  #record(): RecordedRows {
    const rows = this.#rows;
    if (rows.kind === "range") return rows;
    return { kind: "scattered", ids: this.#graph.input("i32", [rows.ids.length], rows.ids) };
  }
}

/** How many adapters a step names. */
export function countAdapters(spans: readonly LoraSpan[]): number {
  return new Set(spans.flatMap(({ adapter }) => adapter ?? [])).size;
}
