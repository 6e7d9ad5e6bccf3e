/** State shared by all parts of a decoder's pass on a GPU: the model, the memory and the batch. */
import type { ElemType } from "../../../kernels/cuda/launch-args.ts";
import type { DeferredEpilogue, QuantizedOutput } from "../../../kernels/cuda/quantized-output.ts";
import type { LoraTiles } from "../../../kernels/lora/lora-tiles.ts";
import type { CudaTensor } from "../../device/cuda/cuda-tensor.ts";
import type { GemmRunner } from "../../device/cuda/dense-gemm.ts";
import type { DevicePointer, KernelStream } from "../../device/cuda/kernel-stream.ts";
import type { DecoderConfig } from "../config/decoder-config.ts";
import type { RankPlace, RankShard } from "../shard/rank-shard.ts";
import type { ModelWeights } from "../weights/weight-plan.ts";
import type { ExpertsMemory } from "./experts-memory.ts";
import type { Int4Memory } from "./int4.ts";
import type { CudaActivations } from "./memory.ts";
import type { StepLayout } from "./step-layout.ts";

export interface CudaRanks {
  readonly place: RankPlace;
  /** In place, over the ranks of the stage. Enqueues, as all of these. */
  sum(at: DevicePointer, count: number, type: ElemType): void;
  /** The rows of the stage before, and to the one behind. */
  receiveRows(at: DevicePointer, count: number, type: ElemType): void;
  sendRows(at: DevicePointer, count: number, type: ElemType): void;
  /** `parts` holds `count` elements of each rank of the stage, this rank's in its place. */
  gather(parts: DevicePointer, count: number): void;
  /** From the first rank of the last stage to the first of all; others do nothing. */
  returnLogits(at: DevicePointer, count: number): void;
  copyRows(copy: {
    readonly to: DevicePointer;
    readonly toPitch: number;
    readonly from: DevicePointer;
    readonly fromPitch: number;
    readonly rowBytes: number;
    readonly numRows: number;
  }): void;
}

/** The rows of logits that each rank makes, and where they are gathered. */
export interface CudaVocabularyShare extends Pick<RankShard, "vocabulary" | "vocabularyStep"> {
  /** f32, for each rank of the stage `gemmRows(maxLogitRows)` rows of `vocabularyStep`. */
  readonly parts: DevicePointer;
}

/** The rows of a pass that carry adapters. */
export interface CudaLoraBatch extends LoraTiles {
  readonly adapters: DevicePointer; // u64 [numTiles]
  readonly tileRows: DevicePointer; // i32 [numTiles, rowsPerTile]
  /** Largest rank of the adapters, padding included. */
  readonly maxRank: number;
}

/** Keys and values of one layer. */
export interface CudaLayerCache {
  readonly keys: DevicePointer; // [numSlots, kvHeads * headDim]
  readonly values: DevicePointer; // likewise
}

/** The frequencies of a RoPE, as a table on the device. */
export interface CudaRope {
  readonly invFreq: DevicePointer; // f32 [numDims / 2]
  readonly numDims: number;
  readonly magnitude: number;
  /** Pairs that rotate by the time, the row and the column of a token, where all ropes of the model have such. */
  readonly sections?: readonly [number, number, number] | undefined;
}

/** The type of cached keys and values: that of activations, FP16, or FP8, which needs no scales in most models. */
export type CudaCacheType = ElemType | "f16" | "e4m3";

export interface CudaDecoderModel {
  readonly config: DecoderConfig;
  readonly type: ElemType;
  /** The result of a row does not depend on other rows: few rows take no special path. */
  readonly isDeterministic?: boolean | undefined;
  readonly weights: ModelWeights<CudaTensor>;
  readonly ropes: readonly CudaRope[];
  readonly caches: readonly CudaLayerCache[];
  readonly cacheType: CudaCacheType;
  readonly blockSize: number;
  readonly numBlocks: number;
  /** Bytes of the counters in front of the scratch memory of attention. */
  readonly attentionCountersBytes: number;
  /** Present for models with INT4 matrices. */
  readonly int4?: Int4Memory | undefined;
  /** Present for models with experts. */
  readonly experts?: ExpertsMemory | undefined;
  /** Present if adapters may be loaded. */
  readonly lora?: { readonly low: DevicePointer } | undefined;
  /** Present if other GPUs run the same model. */
  readonly ranks?: CudaRanks | undefined;
  readonly share?: CudaVocabularyShare | undefined;
}

/** The sizes of a pass and where its numbers are. */
export interface CudaBatch {
  readonly numTokens: number;
  readonly numSequences: number;
  /** Entries of a row of the block table. */
  readonly maxBlocks: number;
  /** Sequences in front that add one token each. */
  readonly numDecoding: number;
  /** The longest query of the other sequences. */
  readonly maxQueryLength: number;
  readonly numLogitRows: number;
  /** Number of logits rows whose tokens are sampled on the device. */
  readonly numChoices: number;
  /** Some of them want the most likely tokens too. */
  readonly hasTop: boolean;
  /** Logits are wanted of every row, in order. */
  readonly keepsAllRows: boolean;
  /** Present if rows carry adapters. */
  readonly lora?: CudaLoraBatch | undefined;
  /** The same of the rows of logits, where only these pass the rest of the last layer; absent: none of them does. */
  readonly keptLora?: CudaLoraBatch | undefined;
  readonly numbers: DevicePointer;
  readonly layout: StepLayout;
}

export interface CudaPass {
  readonly stream: KernelStream;
  readonly gemms: GemmRunner;
  readonly model: CudaDecoderModel;
  readonly memory: CudaActivations;
  readonly batch: CudaBatch;
}

/** Address of a part of the step's numbers. */
export function numbersAt(batch: CudaBatch, part: keyof StepLayout): DevicePointer {
  return batch.numbers + BigInt(4 * batch.layout[part]);
}

/** Rows between two operations of a pass. */
export interface CudaRows {
  /** Activations, or codes where there are scales. */
  readonly address: DevicePointer;
  readonly scales?: DevicePointer | undefined; // f32, one a row
  /** The part of a GEMM's epilogue that its reader does. */
  readonly deferred?: DeferredEpilogue | undefined;
}

/** The output form of a kernel that stores its rows as codes with a scale each. */
export function codesWith(scales: DevicePointer): QuantizedOutput {
  return { codes: "e4m3", per: "row", scales };
}
