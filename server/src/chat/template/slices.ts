/** `value[index]` and `value[start:stop:step]`. Source: Python's language reference, "Subscriptions" and "Slicings". */
import type { Budget } from "./budget.ts";
import { TemplateError } from "./template-error.ts";
import { hasPairs, itemsOf, Tuple, typeName, type Value } from "./values.ts";

export interface SliceBounds {
  readonly start: number | undefined;
  readonly stop: number | undefined;
  readonly step: number | undefined;
}

/** Undefined when there is no such item. Negative indices count from the end. @throws TemplateError beyond the budget */
export function itemAt(value: Value, index: number, budget: Budget): Value | undefined {
  return typeof value === "string" ? pointsOf(value, budget).at(index) : itemsOf(value)?.at(index);
}

/** @throws TemplateError for what has no slices, a step of 0, or beyond the budget */
export function sliceOf(value: Value, bounds: SliceBounds, budget: Budget): Value {
  if (typeof value === "string") return textSlice(value, bounds, budget);
  const items = itemsOf(value);
  if (items === undefined) throw new TemplateError(`'${typeName(value)}' object is not subscriptable`);
  budget.spend(items.length);
  const picked = pick(items, bounds);
  return value instanceof Tuple ? new Tuple(picked) : picked;
}

/** Text of one unit a character needs no list of them. */
function textSlice(text: string, bounds: SliceBounds, budget: Budget): string {
  const points = pointsOf(text, budget);
  if (typeof points !== "string") return pick(points, bounds).join("");
  if (bounds.step === undefined || bounds.step === 1) return points.slice(bounds.start, bounds.stop);
  budget.spend(text.length);
  return pick([...points], bounds).join("");
}

/** By code points. A list of them costs a step each. */
function pointsOf(text: string, budget: Budget): string | readonly string[] {
  budget.chars(text.length);
  if (!hasPairs(text)) return text;
  budget.spend(text.length);
  return [...text];
}

function pick<Item>(items: readonly Item[], { start, stop, step = 1 }: SliceBounds): Item[] {
  if (step === 0) throw new TemplateError("slice step cannot be zero");
  const { length } = items;
  const clamp = (index: number): number => {
    const at = index < 0 ? index + length : index;
    return step > 0 ? Math.min(Math.max(at, 0), length) : Math.min(Math.max(at, -1), length - 1);
  };
  const from = start === undefined ? (step > 0 ? 0 : length - 1) : clamp(start);
  const to = stop === undefined ? (step > 0 ? length : -1) : clamp(stop);
  const count = Math.max(Math.ceil((to - from) / step), 0);
  return Array.from({ length: count }, (_, i) => items[from + i * step]).filter((item) => item !== undefined);
}
