/** Numbers of bytes as people write them. Pure. */

const UNITS: ReadonlyMap<string, number> = new Map([
  ["", 1],
  ["b", 1],
  ["kb", 1e3],
  ["mb", 1e6],
  ["gb", 1e9],
  ["tb", 1e12],
  ["k", 2 ** 10],
  ["m", 2 ** 20],
  ["g", 2 ** 30],
  ["t", 2 ** 40],
  ["kib", 2 ** 10],
  ["mib", 2 ** 20],
  ["gib", 2 ** 30],
  ["tib", 2 ** 40],
]);

/** "4GiB", "1.5 GB", "1048576"; undefined when it is none. */
export function parseByteCount(text: string): number | undefined {
  const [, number, unit] = /^\s*(\d{1,16}(?:\.\d{1,9})?)\s*([a-z]{0,3})\s*$/i.exec(text) ?? [];
  const factor = UNITS.get((unit ?? "").toLowerCase());
  if (number === undefined || factor === undefined) return undefined;
  const bytes = Math.floor(Number(number) * factor);
  return Number.isSafeInteger(bytes) ? bytes : undefined;
}
