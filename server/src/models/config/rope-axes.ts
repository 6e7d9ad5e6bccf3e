/** By how many positions a model turns its tokens: one, or a time, a row and a column. Pure. */
import type { DecoderConfig } from "./decoder-config.ts";

/** Every layer that turns anything turns it by three positions. */
export function hasThreeAxes({ ropes }: Pick<DecoderConfig, "ropes">): boolean {
  return ropes.length > 0 && ropes.every(({ sections }) => sections !== undefined);
}
