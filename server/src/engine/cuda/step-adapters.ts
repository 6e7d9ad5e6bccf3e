/** Which rows of a step carry which adapter, as a GPU takes them. Pure; it knows adapters by where they lie. */
import { loraStepRank } from "../../../kernels/lora/lora.cuda.ts";
import type { LoraGroup } from "../../../kernels/lora/lora-rows.ts";
import { type LoraTiles, planTiles, tileGroups, writeTiles } from "../../../kernels/lora/lora-tiles.ts";
import type { DevicePointer } from "../../device/cuda/kernel-stream.ts";
import type { CudaBatch, CudaLoraBatch } from "../../models/cuda/pass.ts";
import type { StepLayout, StepSizes } from "../../models/cuda/step-layout.ts";
import type { StepInput } from "../step-runner.ts";
import type { PlacedAdapter } from "./adapters.ts";

interface TiledRows {
  readonly groups: readonly LoraGroup[];
  readonly tiles: LoraTiles;
}

export interface StepAdapters {
  readonly all: TiledRows;
  /** Rows of logits with an adapter; undefined: none. */
  readonly kept: TiledRows | undefined;
  /** As `loraStepRank` rounds it. */
  readonly maxRank: number;
  readonly loaded: ReadonlyMap<number, PlacedAdapter>;
}

/** `numRows`: of a recorded step. Undefined when no row carries an adapter. */
export function planStepAdapters(
  { sequences, logitRows }: Pick<StepInput, "sequences" | "logitRows">,
  loaded: ReadonlyMap<number, PlacedAdapter>,
  numRows?: number,
): StepAdapters | undefined {
  let largest = 0;
  for (const { adapter } of sequences) {
    if (adapter !== undefined) largest = Math.max(largest, loaded.get(adapter)?.maxRank ?? 0);
  }
  if (largest === 0) return undefined;
  const maxRank = loraStepRank(largest);
  const all = tiled(tileGroups(sequences, undefined), numRows);
  if (numRows !== undefined) return { all, kept: undefined, maxRank, loaded };
  const groups = tileGroups(sequences, logitRows);
  return { all, kept: groups.length === 0 ? undefined : tiled(groups, undefined), maxRank, loaded };
}

function tiled(groups: readonly LoraGroup[], numRows: number | undefined): TiledRows {
  return { groups, tiles: planTiles(groups, numRows ?? 0, numRows !== undefined) };
}

export function adapterSizes(plan: StepAdapters | undefined): Pick<StepSizes, "loraTiles" | "keptLoraTiles"> {
  return plan === undefined ? {} : { loraTiles: plan.all.tiles, keptLoraTiles: plan.kept?.tiles };
}

/** Fills in the step's numbers, which begin at `numbers` on the device; gives what the pass is told. */
export function packAdapters(
  plan: StepAdapters | undefined,
  layout: StepLayout,
  into: Int32Array,
  numbers: DevicePointer,
): Pick<CudaBatch, "lora" | "keptLora"> {
  if (plan === undefined) return {};
  const pack = ({ groups, tiles }: TiledRows, adaptersAt: number, rowsAt: number): CudaLoraBatch => {
    const addressOf = (adapter: number): bigint => plan.loaded.get(adapter)?.address ?? 0n;
    writeTiles(groups, tiles, addressOf, into, { adaptersAt, rowsAt });
    const [adapters, tileRows] = [numbers + BigInt(4 * adaptersAt), numbers + BigInt(4 * rowsAt)];
    return { ...tiles, adapters, tileRows, maxRank: plan.maxRank };
  };
  return {
    lora: pack(plan.all, layout.loraAdapters, layout.loraRows),
    keptLora: plan.kept && pack(plan.kept, layout.keptLoraAdapters, layout.keptLoraRows),
  };
}
