/** The configurations to choose from: settings with their values, and the loads under which each is measured. Pure. */
import type { WrittenValue } from "@nereid/server/config/model/written-message";

/** The place that a value changes. A field of the configuration is named by its path. */
export type SettingTarget =
  | { readonly kind: "max_batch_size" | "instance_count" | "queue_delay_us" }
  | { readonly kind: "parameter"; readonly key: string }
  | { readonly kind: "field"; readonly path: readonly string[] };

export interface Setting {
  readonly name: string;
  readonly target: SettingTarget;
  /** Numbers rise, so that neighbours are alike. */
  readonly values: readonly WrittenValue[];
}

/** A configuration: the place of the value of each setting. */
export type Variant = readonly number[];

export interface SearchSpace {
  readonly settings: readonly Setting[];
  /** Clients with one request under way each, rising. */
  readonly loads: readonly number[];
}

export function variantKey(variant: Variant): string {
  return variant.join(",");
}

/** "instance_count 2, max_batch_size 8". */
export function variantName({ settings }: SearchSpace, variant: Variant): string {
  const parts = settings.map(({ name, values }, k) => {
    const value = values[variant[k] ?? 0];
    return `${name} ${typeof value === "object" ? JSON.stringify(value) : String(value)}`;
  });
  return parts.length === 0 ? "as configured" : parts.join(", ");
}

export function valueAt({ values }: Setting, place: number | undefined): WrittenValue {
  const value = values[place ?? 0];
  if (value === undefined) throw new RangeError(`a setting has no value ${place}`);
  return value;
}

/** Whether a variant says the same as another: without batches there is nothing to delay. */
export function isDuplicate({ settings }: SearchSpace, variant: Variant): boolean {
  const batch = settings.findIndex(({ target }) => target.kind === "max_batch_size");
  const delay = settings.findIndex(({ target }) => target.kind === "queue_delay_us");
  if (batch < 0 || delay < 0) return false;
  return settings[batch]?.values[variant[batch] ?? 0] === 1 && (variant[delay] ?? 0) > 0;
}

/** Every variant once, the last setting changing first. */
export function allVariants(space: SearchSpace): readonly Variant[] {
  let variants: Variant[] = [[]];
  for (const { values } of space.settings) {
    variants = variants.flatMap((variant) => values.map((_, place) => [...variant, place]));
  }
  return variants.filter((variant) => !isDuplicate(space, variant));
}

/** Variants one step away in one setting. */
export function neighboursOf(space: SearchSpace, variant: Variant): readonly Variant[] {
  const places = variant.map((_, k) => k);
  return moves(
    space,
    variant,
    places.flatMap((k) => [[{ k, step: 1 }], [{ k, step: -1 }]]),
  );
}

/** Variants one step up in two settings: more instances may only help with more of something else. */
export function pairsAbove(space: SearchSpace, variant: Variant): readonly Variant[] {
  const places = variant.map((_, k) => k);
  const pairs = places.flatMap((k) => places.slice(k + 1).map((other) => [k, other]));
  return moves(
    space,
    variant,
    pairs.map((pair) => pair.map((k) => ({ k, step: 1 }))),
  );
}

type Move = readonly { readonly k: number; readonly step: number }[];

function moves(space: SearchSpace, variant: Variant, all: readonly Move[]): readonly Variant[] {
  const moved = all.map((move) => variant.map((place, k) => place + (move.find((each) => each.k === k)?.step ?? 0)));
  const isInside = (each: Variant): boolean =>
    each.every((place, k) => place >= 0 && place < (space.settings[k]?.values.length ?? 0));
  return moved.filter((each) => isInside(each) && !isDuplicate(space, each));
}

/** 1, 2, 4 … within the limits; both limits belong to it. */
export function doublings(min: number, max: number): readonly number[] {
  const values = [min];
  for (let value = 2 ** Math.ceil(Math.log2(min + 1)); value < max; value *= 2) values.push(value);
  if (max > min) values.push(max);
  return values;
}
