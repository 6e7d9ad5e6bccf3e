/** Sets of characters as ranges of code points, both ends included. Source: Unicode 15, 3.9 (scalar values). */

export type CodePoints = readonly (readonly [first: number, last: number])[];

const LAST = 0x10ffff;
/** Halves of UTF-16 pairs: no text holds them alone. */
const SURROGATES: CodePoints = [[0xd800, 0xdfff]];

export const ALL_POINTS: CodePoints = without([[0, LAST]], SURROGATES);

/** In order, without overlaps. */
export function merged(points: CodePoints): CodePoints {
  const ranges: [number, number][] = [];
  for (const [first, last] of [...points].sort((a, b) => a[0] - b[0])) {
    const before = ranges.at(-1);
    if (before !== undefined && first <= before[1] + 1) before[1] = Math.max(before[1], last);
    else ranges.push([first, last]);
  }
  return ranges;
}

/** Points of the first set that are not in the second. */
export function without(points: CodePoints, others: CodePoints): CodePoints {
  const rest: [number, number][] = [];
  const taken = merged(others);
  for (const [first, last] of merged(points)) {
    let next = first;
    for (const [from, to] of taken) {
      if (to < next || from > last) continue;
      if (from > next) rest.push([next, from - 1]);
      next = to + 1;
    }
    if (next <= last) rest.push([next, last]);
  }
  return rest;
}

export function common(points: CodePoints, others: CodePoints): CodePoints {
  return without(points, without(ALL_POINTS, others));
}

export function complement(points: CodePoints): CodePoints {
  return without(ALL_POINTS, points);
}

/** Adds the other case of ASCII letters. */
export function anyCase(points: CodePoints): CodePoints {
  const shifted = (low: number, high: number, by: number): CodePoints =>
    common(points, [[low, high]]).map(([first, last]) => [first + by, last + by] as const);
  return merged([...points, ...shifted(0x41, 0x5a, 0x20), ...shifted(0x61, 0x7a, -0x20)]);
}
