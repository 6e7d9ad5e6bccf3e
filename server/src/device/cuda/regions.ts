/** Named parts of one allocation: planned before it is made, placed once it has an address. Knows no model. */
import { layOut } from "./cuda-tensor.ts";
import type { DevicePointer } from "./kernel-stream.ts";

export interface RegionPlan<Name extends string> {
  readonly offsets: Readonly<Record<Name, number>>;
  readonly numBytes: number;
}

/** One behind the other in the order of the names; each begins where any kernel may read vectors. */
export function planRegions<Name extends string>(sizes: Readonly<Record<Name, number>>): RegionPlan<Name> {
  const names = Object.keys(sizes) as Name[];
  const { offsets, numBytes } = layOut(names.map((name) => sizes[name]));
  return { offsets: byName(names, (i) => offsets[i] ?? 0), numBytes };
}

/** Address of each region in memory that begins at `base`. */
export function placeRegions<Name extends string>(
  { offsets }: RegionPlan<Name>,
  base: DevicePointer,
): Readonly<Record<Name, DevicePointer>> {
  return byName(Object.keys(offsets) as Name[], (_, name) => base + BigInt(offsets[name]));
}

function byName<Name extends string, T>(
  names: readonly Name[],
  make: (index: number, name: Name) => T,
): Readonly<Record<Name, T>> {
  return Object.fromEntries(names.map((name, i) => [name, make(i, name)])) as Record<Name, T>;
}
