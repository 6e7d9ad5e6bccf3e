/**
 * Searches AWQ scaling factors for all layers from calibration statistics (Lin et al. 2023, section 3.2). It writes
 * nothing.
 */
import { createElementConverter } from "@nereid/server/device/cpu/element-converter";
import { type LayoutTensor, stageTensors } from "@nereid/server/formats/trtllm/layout";
import { findPrefix } from "@nereid/server/models/weights/weight-plan";
import type { OpenedDecoder } from "../checkpoint/open-decoder.ts";
import { type FactorsByName, RowReader, type WeightFactors } from "../checkpoint/row-reader.ts";
import { type InputStats, type LinearSite, siteKey } from "./input-stats.ts";
import { type Fold, layerFolds } from "./layer-folds.ts";
import { type FoundScales, type SampledMatrix, searchScales, smoothingFactors } from "./scale-search.ts";

export interface SearchedFactors {
  readonly factors: FactorsByName;
  /** Mean square of each input after scaling, by module of the checkpoint. */
  readonly importance: ReadonlyMap<string, Float32Array>;
  /** Totals over all layers. */
  readonly error: number;
  readonly plainError: number;
}

export type SearchScales = (
  matrices: readonly SampledMatrix[],
  stats: InputStats,
  sharedBy: Int32Array | undefined,
) => FoundScales;

/** Number of sampled rows per matrix, evenly spaced: they represent the effect of column factors. */
const MAX_SAMPLED_ROWS = 256;
const WHOLE = { tpSize: 1, ppSize: 1, embeddingSplit: "none" } as const;

export function awqScales(groupSize: number): SearchScales {
  return (matrices, stats, sharedBy) =>
    searchScales({ ...stats, matrices, numColumns: stats.meanAbs.length, groupSize, sharedBy });
}

/** SmoothQuant's exponent, applied to maximum instead of mean inputs. */
export function smoothingScales(): SearchScales {
  return (matrices, { maxAbs }, sharedBy) => ({
    factors: smoothingFactors(matrices, maxAbs, sharedBy),
    error: 0,
    plainError: 0,
  });
}

export async function searchFactors(
  { parsed, tensors }: OpenedDecoder,
  stats: ReadonlyMap<string, InputStats>,
  search: SearchScales,
  onLayer: () => void,
): Promise<SearchedFactors> {
  const { config, weights } = parsed;
  const prefix = findPrefix(weights, (name) => tensors.tensors.has(name));
  const layout = stageTensors(config, weights, prefix, WHOLE, 0);
  const reader = new RowReader(tensors, createElementConverter());
  const found = { factors: new Map<string, WeightFactors>(), importance: new Map<string, Float32Array>() };
  let [error, plainError] = [0, 0];
  for (let layer = 0; layer < config.numLayers; layer++) {
    const own = layerTensors(layout, layer);
    const bySite = new Map<LinearSite, Float32Array>();
    for (const fold of layerFolds(config, own)) {
      const seen = stats.get(siteKey(layer, fold.site));
      if (seen === undefined) continue;
      const matrices = await Promise.all(fold.consumers.flatMap((tensor) => sampleRows(reader, tensor)));
      const scales = search(matrices, seen, fold.rowOfInput);
      bySite.set(fold.site, scales.factors);
      addFactors(found.factors, fold, scales.factors);
      error += scales.error;
      plainError += scales.plainError;
    }
    addImportance(found.importance, own, layer, stats, bySite);
    onLayer();
  }
  return { ...found, error, plainError };
}

/** By name suffix within a layer. */
function layerTensors(layout: readonly LayoutTensor[], layer: number): ReadonlyMap<string, LayoutTensor> {
  const at = `transformer.layers.${layer}.`;
  const own = layout.filter(({ name }) => name.startsWith(at));
  return new Map(own.map((tensor) => [tensor.name.slice(at.length), tensor]));
}

function sampleRows(reader: RowReader, tensor: LayoutTensor): readonly Promise<SampledMatrix>[] {
  return tensor.parts.map(async ({ name, firstRow, numRows }) => {
    const { columns = 1 } = tensor;
    const step = Math.max(1, Math.floor(numRows / MAX_SAMPLED_ROWS));
    const count = Math.floor((numRows - 1) / step) + 1;
    const values = new Float32Array(count * columns);
    for (let i = 0; i < count; i++) {
      const bytes = await reader.read(name, tensor, firstRow + i * step, 1, "f32");
      values.set(new Float32Array(bytes.buffer, bytes.byteOffset, columns), i * columns);
    }
    return { values };
  });
}

function addFactors(factors: Map<string, WeightFactors>, fold: Fold, scales: Float32Array): void {
  for (const { parts } of fold.consumers) {
    for (const { name } of parts) factorsOf(factors, name).columns = scales;
  }
  for (const { name, shape, firstRow, numRows } of fold.producers) {
    const own = factorsOf(factors, name);
    // A matrix of several parts: the others keep their rows.
    own.rows ??= new Float32Array(Math.max(...shape)).fill(1);
    for (let i = 0; i < scales.length; i++) {
      const row = fold.rowOfInput?.[i] ?? i;
      if (row < numRows) own.rows[firstRow + row] = 1 / (scales[i] ?? 1);
    }
  }
}

function factorsOf(factors: Map<string, WeightFactors>, name: string): WeightFactors {
  const known = factors.get(name);
  if (known !== undefined) return known;
  const made = {};
  factors.set(name, made);
  return made;
}

/** The inputs of each module, by name suffix within its layer. */
export const MODULE_SITES: ReadonlyMap<string, LinearSite> = new Map([
  ["attention.qkv", "qkv"],
  ["attention.dense", "oProj"],
  ["mlp.fc", "mlpIn"],
  ["mlp.gate", "mlpIn"],
  ["mlp.proj", "mlpOut"],
]);

function addImportance(
  importance: Map<string, Float32Array>,
  own: ReadonlyMap<string, LayoutTensor>,
  layer: number,
  stats: ReadonlyMap<string, InputStats>,
  bySite: ReadonlyMap<LinearSite, Float32Array>,
): void {
  const isParallel = !own.has("post_layernorm.weight") && !own.has("pre_feedforward_layernorm.weight");
  for (const [module, site] of MODULE_SITES) {
    const seen = stats.get(siteKey(layer, site));
    if (seen === undefined || !own.has(`${module}.weight`)) continue;
    const factors = bySite.get(isParallel && site === "mlpIn" ? "qkv" : site);
    const values = Float32Array.from(seen.meanSquare, (square, i) => square / (factors?.[i] ?? 1) ** 2);
    importance.set(`transformer.layers.${layer}.${module}`, values);
  }
}
