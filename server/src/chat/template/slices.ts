/** `value[index]` and `value[start:stop:step]`. Source: Python's language reference, "Subscriptions" and "Slicings". */
import { TemplateError } from "./template-error.ts";
import { itemsOf, Tuple, typeName, type Value } from "./values.ts";

export interface SliceBounds {
  readonly start: number | undefined;
  readonly stop: number | undefined;
  readonly step: number | undefined;
}

/** Undefined when there is no such item. Negative indices count from the end. */
export function itemAt(value: Value, index: number): Value | undefined {
  const items = typeof value === "string" ? [...value] : itemsOf(value);
  return items?.at(index);
}

/** @throws TemplateError for what has no slices, or a step of 0 */
export function sliceOf(value: Value, bounds: SliceBounds): Value {
  if (typeof value === "string") return pick([...value], bounds).join("");
  const items = itemsOf(value);
  if (items === undefined) throw new TemplateError(`'${typeName(value)}' object is not subscriptable`);
  const picked = pick(items, bounds);
  return value instanceof Tuple ? new Tuple(picked) : picked;
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
