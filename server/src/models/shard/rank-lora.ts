/**
 * One GPU's part of an adapter, with tensor parallelism. Projections with split outputs keep all inputs and their own
 * outputs. Projections with split inputs keep their own inputs and all outputs; the all-reduce that follows also sums
 * the adapter's part. Pure.
 */
import type { LoraAdapter, LoraChange, LoraLinear } from "../../formats/lora/lora-adapter.ts";
import type { DecoderConfig } from "../config/decoder-config.ts";
import { headRows, innerRows, placeOf, type Range, type RankPlace, stageLayers, within } from "./rank-shard.ts";

/** A change as a rank has it, and what it takes of the matrices; undefined: all. */
interface ChangeShare {
  readonly change: Omit<LoraChange, "a" | "b">;
  readonly inputs?: Range | undefined;
  readonly outputs?: readonly Range[] | undefined;
}

/** Linear layers whose inputs are divided. */
const DIVIDED_INPUTS: ReadonlySet<LoraLinear> = new Set(["oProj", "mlpOut"]);
const NOTHING: Float32Array = new Float32Array(0);

export class AdapterShares {
  readonly #config: DecoderConfig;
  readonly #numTensorRanks: number;
  readonly #numStages: number;

  /** `config`: of the whole model. */
  constructor(config: DecoderConfig, layout: Pick<RankPlace, "numTensorRanks" | "numStages">) {
    this.#config = config;
    this.#numTensorRanks = layout.numTensorRanks;
    this.#numStages = layout.numStages;
  }

  partOf({ changes }: LoraAdapter, rank: number): LoraAdapter {
    const place = placeOf(rank, this.#numTensorRanks, this.#numStages);
    return {
      changes: changes.flatMap((whole) => {
        const share = shareOf(whole, this.#config, place);
        return share === undefined ? [] : [cutChange(whole, share)];
      }),
    };
  }

  /** The parts of a rank of each stage, without their numbers: those of a stage are of one size. */
  outlines({ changes }: LoraAdapter): readonly LoraAdapter[] {
    return Array.from({ length: this.#numStages }, (_, stage) => {
      const place = placeOf(stage * this.#numTensorRanks, this.#numTensorRanks, this.#numStages);
      const shares = changes.flatMap((whole) => shareOf(whole, this.#config, place) ?? []);
      return { changes: shares.map(({ change }) => ({ ...change, a: NOTHING, b: NOTHING })) };
    });
  }
}

/** Undefined: the layer is another stage's. */
function shareOf(
  { layer, rank, target }: LoraChange,
  config: DecoderConfig,
  place: RankPlace,
): ChangeShare | undefined {
  const layers = stageLayers(config.numLayers, place);
  const own = layer - layers.first;
  if (own < 0 || own >= layers.count) return undefined;
  const { tensorRank, numTensorRanks } = place;
  if (numTensorRanks === 1) return { change: { layer: own, rank, target } };
  if (DIVIDED_INPUTS.has(target.linear)) {
    const count = target.inputs / numTensorRanks;
    const inputs = { first: tensorRank * count, count };
    return { change: { layer: own, rank, target: { ...target, inputs: count } }, inputs };
  }
  const { intermediateSize, isGated } = config.mlp;
  const ranges =
    target.linear === "qkv" ? headRows(config, place) : innerRows(intermediateSize, isGated ? 2 : 1, place);
  const outputs = within(ranges, { first: target.column, count: target.outputs });
  const column = countOf(within(ranges, { first: 0, count: target.column }));
  return { change: { layer: own, rank, target: { ...target, column, outputs: countOf(outputs) } }, outputs };
}

function countOf(ranges: readonly Range[]): number {
  return ranges.reduce((sum, { count }) => sum + count, 0);
}

function cutChange({ a, b, rank, target }: LoraChange, { change, inputs, outputs }: ChangeShare): LoraChange {
  return {
    ...change,
    a: inputs === undefined ? a : takeColumns(a, target.inputs, inputs),
    b: outputs === undefined ? b : takeRows(b, rank, outputs),
  };
}

function takeColumns(values: Float32Array, width: number, { first, count }: Range): Float32Array {
  const taken = new Float32Array((values.length / width) * count);
  for (let from = first, to = 0; from < values.length; from += width, to += count) {
    taken.set(values.subarray(from, from + count), to);
  }
  return taken;
}

function takeRows(values: Float32Array, width: number, ranges: readonly Range[]): Float32Array {
  const taken = new Float32Array(countOf(ranges) * width);
  let to = 0;
  for (const { first, count } of ranges) {
    taken.set(values.subarray(first * width, (first + count) * width), to);
    to += count * width;
  }
  return taken;
}
