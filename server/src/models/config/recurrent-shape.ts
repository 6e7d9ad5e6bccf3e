/** Sizes that follow from the kind of a recurrent layer: the rows of its projection, its convolution and its state. Pure. */
import type { DecoderConfig, RecurrentLayer } from "./decoder-config.ts";

export interface RecurrentShape {
  /** Columns of the input projection. */
  readonly inputs: number;
  /** First column that is convolved, and how many are. */
  readonly convColumn: number;
  readonly convChannels: number;
  /** Columns of what the output projection reads. */
  readonly outputs: number;
  /** Heads that have a time step. */
  readonly numHeads: number;
  /** Numbers of the state of a sequence: inputs of the convolution, and the rest. 0: no rest. */
  readonly convState: number;
  readonly state: number;
}

export function recurrentShape(layer: RecurrentLayer, hiddenSize: number): RecurrentShape {
  const kept = layer.convWidth - 1;
  switch (layer.kind) {
    case "delta-net": {
      const { numKeyHeads, numValueHeads, headDim } = layer;
      const values = numValueHeads * headDim;
      const convChannels = 2 * numKeyHeads * headDim + values;
      return {
        inputs: convChannels + values + 2 * numValueHeads,
        convColumn: 0,
        convChannels,
        outputs: values,
        numHeads: numValueHeads,
        convState: convChannels * kept,
        state: values * headDim,
      };
    }
    case "mamba-2": {
      const outputs = layer.numHeads * layer.headDim;
      const convChannels = outputs + 2 * layer.numGroups * layer.stateSize;
      return {
        inputs: outputs + convChannels + layer.numHeads,
        convColumn: outputs,
        convChannels,
        outputs,
        numHeads: layer.numHeads,
        convState: convChannels * kept,
        state: outputs * layer.stateSize,
      };
    }
    case "short-conv":
      return {
        inputs: 3 * hiddenSize,
        convColumn: 0,
        convChannels: hiddenSize,
        outputs: hiddenSize,
        numHeads: 0,
        convState: hiddenSize * kept,
        state: 0,
      };
  }
}

/** Bytes of the state of one sequence in all layers, in f32; 0 for models without one. */
export function stateBytes({ recurrent, layers, hiddenSize }: DecoderConfig): number {
  if (recurrent === undefined) return 0;
  const { convState, state } = recurrentShape(recurrent, hiddenSize);
  return 4 * (convState + state) * layers.filter(({ isRecurrent }) => isRecurrent === true).length;
}
