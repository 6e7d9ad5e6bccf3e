/** States of the sequences in recurrent layers on the CPU device: a slot for each sequence, beside the KV cache. */
import { CpuBuffer } from "../../device/cpu/cpu-buffer.ts";
import type { CpuDevice } from "../../device/cpu/cpu-device.ts";
import { byteSize, type CpuTensor, type CpuTensorSpec } from "../../device/cpu/cpu-tensor.ts";
import type { DecoderConfig } from "../../models/config/decoder-config.ts";
import { recurrentShape } from "../../models/config/recurrent-shape.ts";
import type { LayerState } from "../../models/cpu/decoder-model.ts";
import type { StepSequence } from "../step-runner.ts";

export class CpuStates {
  /** By layer; undefined for those that attend. */
  readonly layers: readonly (LayerState | undefined)[];
  readonly numSlots: number;
  readonly #buffer: CpuBuffer;

  /** @throws Error when the memory cannot be had */
  constructor(device: CpuDevice, { layers, recurrent, hiddenSize }: DecoderConfig, numSlots: number) {
    if (recurrent === undefined) throw new Error("states of a model that has none");
    const { convState, state } = recurrentShape(recurrent, hiddenSize);
    const widths = state === 0 ? [convState] : [convState, state];
    const specs = layers.flatMap(({ isRecurrent }) =>
      isRecurrent === true ? widths.map((width): CpuTensorSpec => ({ type: "f32", shape: [numSlots, width] })) : [],
    );
    this.numSlots = numSlots;
    this.#buffer = new CpuBuffer(device, specs);
    const tensors = [...this.#buffer.tensors];
    this.layers = layers.map(({ isRecurrent }) => {
      const [conv, rest] = isRecurrent === true ? tensors.splice(0, widths.length) : [];
      return conv && { conv, rest };
    });
  }

  /** Pairs [from, to, ...], one after the other: what sequences that part had in common. */
  copy(pairs: Int32Array): void {
    for (let i = 0; i < pairs.length; i += 2) this.#eachRow(pairs[i] ?? 0, pairs[i + 1] ?? 0);
  }

  /** Sequences begin with states of zeros. */
  clearNew(sequences: readonly StepSequence[]): void {
    for (const { state, queryLength, contextLength } of sequences) {
      if (state !== undefined && queryLength === contextLength) this.#eachRow(undefined, state);
    }
  }

  close(): void {
    this.#buffer.close();
  }

  /** Writes the rows of a slot: those of another one, or zeros. */
  #eachRow(from: number | undefined, to: number): void {
    for (const tensor of this.#buffer.tensors) {
      const row = new Uint8Array(this.#rowBytes(tensor));
      if (from !== undefined) this.#buffer.read(tensor, row, from * row.length);
      this.#buffer.write(tensor, row, to * row.length);
    }
  }

  #rowBytes(tensor: CpuTensor): number {
    return byteSize(tensor) / this.numSlots;
  }
}
