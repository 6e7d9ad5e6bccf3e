/** Every reader of untrusted bytes that runs in-process. */
import type { FuzzTarget } from "./fuzz-target.ts";
import { FILE_TARGETS } from "./targets/file-targets.ts";
import { IMAGE_TARGETS } from "./targets/image-targets.ts";
import { TEXT_TARGETS } from "./targets/text-targets.ts";
import { WIRE_TARGETS } from "./targets/wire-targets.ts";

export const FUZZ_TARGETS: readonly FuzzTarget[] = [
  ...WIRE_TARGETS,
  ...FILE_TARGETS,
  ...TEXT_TARGETS,
  ...IMAGE_TARGETS,
];

/** @throws Error when there is none of that name */
export function fuzzTarget(name: string): FuzzTarget {
  const target = FUZZ_TARGETS.find((each) => each.name === name);
  if (target === undefined)
    throw new Error(`no fuzz target ${name}: ${FUZZ_TARGETS.map((each) => each.name).join(", ")}`);
  return target;
}
