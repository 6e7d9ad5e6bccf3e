/**
 * Decimal numbers between two bounds as EBNF (RFC 8259, section 6, without exponents). Source: own design; a bound is
 * compared digit by digit, as in an automaton over its digits.
 */

export interface NumberBounds {
  readonly minimum?: number | undefined;
  readonly maximum?: number | undefined;
  readonly exclusiveMinimum?: number | undefined;
  readonly exclusiveMaximum?: number | undefined;
}

const MIN_FRACTION_DIGITS = 6;
const MAX_FRACTION_DIGITS = 20;
/** Fifteen digits: each makes the grammar longer, and more are not exact in every reader. */
const LARGEST = 10 ** 15 - 1;

/**
 * An expression of EBNF without references to rules; undefined: no number lies between the bounds. `maxPlaces`: digits
 * behind the point.
 */
export function numberRange(
  bounds: NumberBounds,
  isInteger = false,
  maxPlaces: number = MAX_FRACTION_DIGITS,
): string | undefined {
  const given = [bounds.minimum, bounds.maximum, bounds.exclusiveMinimum, bounds.exclusiveMaximum];
  const digits = Math.max(
    MIN_FRACTION_DIGITS,
    ...given.map((bound) => (bound === undefined ? 0 : fractionDigits(bound))),
  );
  const places = isInteger ? 0 : Math.min(digits, maxPlaces);
  const lowest = largest(
    scaled(bounds.minimum ?? -LARGEST, places, "up"),
    bounds.exclusiveMinimum === undefined ? undefined : scaled(bounds.exclusiveMinimum, places, "down") + 1n,
  );
  const highest = -largest(
    -scaled(bounds.maximum ?? LARGEST, places, "down"),
    bounds.exclusiveMaximum === undefined ? undefined : -(scaled(bounds.exclusiveMaximum, places, "up") - 1n),
  );
  if (lowest > highest) return undefined;
  const negative = lowest < 0n ? unsigned(highest < 0n ? -highest : 0n, -lowest, places) : undefined;
  const positive = highest >= 0n ? unsigned(lowest > 0n ? lowest : 0n, highest, places) : undefined;
  return either([negative === undefined ? undefined : `"-" ${negative}`, positive]);
}

function largest(one: bigint, other: bigint | undefined): bigint {
  return other === undefined || other < one ? one : other;
}

/** Digits behind the point of the shortest text of a number. */
function fractionDigits(value: number): number {
  const [, fraction = "", exponent = "0"] = /^-?\d+(?:\.(\d+))?(?:e([-+]\d+))?$/.exec(String(value)) ?? [];
  return Math.max(0, fraction.length - Number(exponent));
}

/** The value times 10^places, rounded in one direction when it has more digits. */
function scaled(value: number, places: number, direction: "up" | "down"): bigint {
  const clamped = Math.max(-LARGEST, Math.min(LARGEST, value));
  const [, sign = "", whole = "0", fraction = "", exponent = "0"] =
    /^(-?)(\d+)(?:\.(\d+))?(?:e([-+]\d+))?$/.exec(String(clamped)) ?? [];
  const digits = BigInt(`${sign}${whole}${fraction}`);
  const shift = places + Number(exponent) - fraction.length;
  if (shift >= 0) return digits * 10n ** BigInt(shift);
  const divisor = 10n ** BigInt(-shift);
  const quotient = digits / divisor; // towards zero
  const isExact = quotient * divisor === digits;
  if (isExact || (direction === "up") === digits < 0n) return quotient;
  return quotient + (direction === "up" ? 1n : -1n);
}

/** Between two numbers that are not negative, both included. */
function unsigned(lowest: bigint, highest: bigint, places: number): string {
  const unit = 10n ** BigInt(places);
  const [first, last] = [lowest / unit, highest / unit];
  const low = fractionOf(lowest, places);
  const high = fractionOf(highest, places);
  const any = places === 0 ? "" : `("." ${digits(1, places)})?`;
  if (first === last) return `"${first}" ${fractionBetween(low, high, places)}`;
  const parts = [
    `"${first}" ${low === "" ? any : `"." ${atLeast(low, places)}`}`,
    last - first > 1n ? `${integersBetween(String(first + 1n), String(last - 1n))} ${any}` : undefined,
    `"${last}" ${fractionAtMost(high, places)}`,
  ];
  return either(parts) ?? "";
}

/** Without zeros at its end. */
function fractionOf(value: bigint, places: number): string {
  const unit = 10n ** BigInt(places);
  return String(value % unit)
    .padStart(places, "0")
    .replace(/0+$/, "");
}

function fractionAtMost(high: string, places: number): string {
  if (places === 0) return "";
  if (high === "") return `("." ${zeros(1, places)})?`;
  return `("." ${atMost(high, places, true)})?`;
}

function fractionBetween(low: string, high: string, places: number): string {
  if (low === "") return fractionAtMost(high, places);
  return `"." ${between(low, high, places)}`;
}

/** Digits that are no less than `low`, which does not end with a zero. */
function atLeast(low: string, places: number): string {
  const digit = Number(low.charAt(0));
  const rest = low.slice(1);
  const same = rest === "" ? digits(0, places - 1) : atLeast(rest, places - 1);
  const more = digit < 9 ? `[${digit + 1}-9] ${digits(0, places - 1)}` : undefined;
  return either([more, `"${digit}" ${same}`]) ?? "";
}

/** Digits that are no more than `high`; the first of them is there when `isFirst`. */
function atMost(high: string, places: number, isFirst: boolean): string {
  if (high === "") return zeros(0, places);
  const digit = Number(high.charAt(0));
  const less = digit > 0 ? `[0-${digit - 1}] ${digits(0, places - 1)}` : undefined;
  const all = either([less, `"${digit}" ${atMost(high.slice(1), places - 1, false)}`]) ?? "";
  return isFirst ? all : `${all}?`;
}

function between(low: string, high: string, places: number): string {
  if (low === "") return atMost(high, places, false);
  const [first, last] = [Number(low.charAt(0)), Number(high.charAt(0) || "0")];
  const [lowRest, highRest] = [low.slice(1), high.slice(1)];
  if (first === last) return `"${first}" ${between(lowRest, highRest, places - 1)}`;
  const inner = last - first > 1 ? `[${first + 1}-${last - 1}] ${digits(0, places - 1)}` : undefined;
  const atFirst = `"${first}" ${lowRest === "" ? digits(0, places - 1) : atLeast(lowRest, places - 1)}`;
  return either([atFirst, inner, `"${last}" ${atMost(highRest, places - 1, false)}`]) ?? "";
}

/** Whole numbers between two, without leading zeros. */
function integersBetween(low: string, high: string): string {
  if (low.length === high.length) return sameLength(low, high);
  const parts = [sameLength(low, "9".repeat(low.length))];
  if (high.length - low.length > 1) parts.push(`[1-9] ${digits(low.length, high.length - 2)}`);
  parts.push(sameLength(`1${"0".repeat(high.length - 1)}`, high));
  return either(parts) ?? "";
}

function sameLength(low: string, high: string): string {
  if (low === "") return "";
  const [first, last] = [Number(low.charAt(0)), Number(high.charAt(0))];
  const [lowRest, highRest] = [low.slice(1), high.slice(1)];
  const length = lowRest.length;
  if (first === last) return length === 0 ? `"${first}"` : `"${first}" ${sameLength(lowRest, highRest)}`;
  if (/^0*$/.test(lowRest) && /^9*$/.test(highRest)) return `[${first}-${last}] ${digits(length, length)}`;
  const nines = "9".repeat(length);
  const inner = last - first > 1 ? `[${first + 1}-${last - 1}] ${digits(length, length)}` : undefined;
  return (
    either([
      `"${first}" ${sameLength(lowRest, nines)}`,
      inner,
      `"${last}" ${sameLength("0".repeat(length), highRest)}`,
    ]) ?? ""
  );
}

function digits(min: number, max: number): string {
  return max === 0 ? "" : `[0-9]{${min},${max}}`;
}

function zeros(min: number, max: number): string {
  return max === 0 ? "" : `"0"{${min},${max}}`;
}

function either(parts: readonly (string | undefined)[]): string | undefined {
  const given = parts.filter((part) => part !== undefined);
  return given.length === 0 ? undefined : `(${given.join(" | ")})`;
}
