/** By how many positions a model turns its tokens: one, or a time, a row and a column. Pure. */
import type { DecoderConfig } from "./decoder-config.ts";

/** Every layer that turns anything turns it by three positions. */
export function hasThreeAxes({ ropes }: Pick<DecoderConfig, "ropes">): boolean {
  return ropes.length > 0 && ropes.every(({ sections }) => sections !== undefined);
}

/** What runs on GPUs turns by one. @throws Error that says where the model runs */
export function expectOneAxis({ ropes }: Pick<DecoderConfig, "ropes">): void {
  if (ropes.every(({ sections }) => sections === undefined)) return;
  throw new Error(
    "models that turn tokens by time, row and column (mrope_section: Qwen2-VL) run on CPUs: set instance_group to KIND_CPU",
  );
}
