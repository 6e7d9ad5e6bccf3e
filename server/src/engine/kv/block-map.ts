/**
 * The KV cache block by block, for people: a letter each. A cache of many blocks has a cell for several neighbours, which shows
 * the one of most use among them. Pure.
 * Source: own design; the states are those of vLLM's and SGLang's block managers.
 */
import { NO_LINK } from "./chain-table.ts";

/** In the order of use: free, kept for prefixes, held by one sequence, shared by several. */
export const BLOCK_LETTERS = "fcus";
/** A frame of the engine stays small, and a screen shows no more. */
export const MAX_BLOCK_CELLS = 1024;

interface Holders {
  readonly numBlocks: number;
  /** 0 = free. */
  numHolders(block: number): number;
}

interface Links {
  /** The cache holds a block that has a link. */
  linkOf(block: number): number;
}

/** A letter of `BLOCK_LETTERS` for each cell, by block number. */
export function blockMap(pool: Holders, cache: Links): string {
  const { numBlocks } = pool;
  const perCell = Math.max(1, Math.ceil(numBlocks / MAX_BLOCK_CELLS));
  let map = "";
  for (let first = 0; first < numBlocks; first += perCell) {
    let most = 0;
    const end = Math.min(numBlocks, first + perCell);
    for (let block = first; block < end; block++) most = Math.max(most, useOf(block, pool, cache));
    map += BLOCK_LETTERS[most] ?? "";
  }
  return map;
}

/** Index in `BLOCK_LETTERS`. */
function useOf(block: number, pool: Holders, cache: Links): number {
  const numHolders = pool.numHolders(block);
  if (numHolders === 0) return 0;
  const numSequences = numHolders - (cache.linkOf(block) === NO_LINK ? 0 : 1);
  return 1 + Math.min(numSequences, 2);
}
