/**
 * Multiples of a number between two bounds as EBNF: one by one where they are few, by their digits behind the point for
 * steps of 1, 0.1, 0.01 and so on. Source: JSON Schema 2020-12, Validation, 6.2.1.
 */
import { type NumberBounds, numberRange } from "./number-range.ts";

/** More make the grammar slow. */
const MAX_VALUES = 1000;
/** `toFixed` gives no more digits that are exact. */
const MAX_PLACES = 15;

/** Undefined: the multiples have no such form, or there are none. */
export function numberMultiples(bounds: NumberBounds, step: number, isInteger: boolean): string | undefined {
  const places = placesOf(step);
  if (!(step > 0) || places === undefined) return undefined;
  const listed = listOf(bounds, step, places, isInteger);
  if (listed !== undefined)
    return listed.length === 0 ? undefined : `(${listed.map((text) => `"${text}"`).join(" | ")})`;
  const isPower = step === 1 || Number(`1e-${places}`) === step;
  return isPower ? numberRange(bounds, isInteger, places) : undefined;
}

/** Undefined: a side is open, or they are too many. */
function listOf(bounds: NumberBounds, step: number, places: number, isInteger: boolean): readonly string[] | undefined {
  const lowest = Math.max(
    bounds.minimum ?? Number.NEGATIVE_INFINITY,
    bounds.exclusiveMinimum ?? Number.NEGATIVE_INFINITY,
  );
  const highest = Math.min(
    bounds.maximum ?? Number.POSITIVE_INFINITY,
    bounds.exclusiveMaximum ?? Number.POSITIVE_INFINITY,
  );
  if (!((highest - lowest) / step <= MAX_VALUES)) return undefined;
  const first = Math.ceil(lowest / step) - 1; // one more on each side: quotients are rounded
  const indices = Array.from({ length: Math.floor((highest - lowest) / step) + 4 }, (_, i) => first + i);
  const texts = indices.map((index) => textOf(index * step, places));
  return texts.filter((text) => isWithin(Number(text), bounds) && !(isInteger && text.includes(".")));
}

export function isWithin(value: number, bounds: NumberBounds): boolean {
  const { minimum = value, maximum = value, exclusiveMinimum, exclusiveMaximum } = bounds;
  const isInside = value >= minimum && value <= maximum;
  return (
    isInside &&
    !(exclusiveMinimum !== undefined && value <= exclusiveMinimum) &&
    !(exclusiveMaximum !== undefined && value >= exclusiveMaximum)
  );
}

/** Whether the value is a multiple, as far as decimals tell. */
export function isMultiple(value: number, step: number): boolean {
  const places = placesOf(step);
  return places === undefined || Number(textOf(Math.round(value / step) * step, places)) === value;
}

function textOf(value: number, places: number): string {
  const text = value.toFixed(places);
  const short = text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  return short === "-0" ? "0" : short;
}

/** Digits behind the point. */
function placesOf(step: number): number | undefined {
  for (let places = 0; places <= MAX_PLACES; places++) {
    if (Number(step.toFixed(places)) === step) return places;
  }
  return undefined;
}
