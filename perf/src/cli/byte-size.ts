/** Sizes on a command line: 1000, 16m, 1g. */
import { UsageError } from "@nereid/server/cli/arguments";

const UNITS: Readonly<Record<string, number>> = { "": 1, k: 1024, m: 1024 ** 2, g: 1024 ** 3 };

/** @throws UsageError */
export function parseBytes(text: string, flag: string): number {
  const [, digits, unit = ""] = /^(\d+)([kmg]?)$/i.exec(text) ?? [];
  const size = Number(digits) * (UNITS[unit.toLowerCase()] ?? Number.NaN);
  if (!(size > 0)) throw new UsageError(`${flag} is a size: 1000, 16m or 1g, got '${text}'`);
  return size;
}
