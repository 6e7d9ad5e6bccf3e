/**
 * Which checks of kernels are enough for a test: few that together launch every kernel with every value of every define
 * that any check has. Knows what launches ask for, not what they compute.
 */
import type { RecordedLaunch } from "../../server/src/device/cuda/fake-kernel-stream.ts";
import { createRandom } from "../support/random.ts";

export interface CheckLaunches {
  readonly name: string;
  readonly launches: readonly RecordedLaunch[];
  readonly shows?: readonly string[] | undefined;
}

interface Candidate {
  readonly name: string;
  readonly variants: ReadonlySet<string>;
  readonly work: number;
}

/** Defines that name a number format: a kernel's sums are another program in each. */
export function isFormat(define: string): boolean {
  return /^(ELEM|QUANTIZE|KV|WEIGHT|X|OUT)_/.test(define);
}

/** Names of checks; another seed may give others of about the same work. `shows`: the defines that count, all by default. */
export function selectChecks(
  checks: readonly CheckLaunches[],
  seed: number,
  shows: (define: string) => boolean = () => true,
): readonly string[] {
  const random = createRandom(seed);
  const candidates = checks
    .map((check) => ({
      name: check.name,
      variants: variantsOf(check, shows),
      work: workOf(check.launches) * (1 + random.next()),
    }))
    .sort((a, b) => a.work - b.work);
  const seen = new Set<string>();
  const selected: Candidate[] = [];
  for (const candidate of candidates) {
    if (!hasNew(candidate.variants, seen)) continue;
    selected.push(candidate);
    for (const variant of candidate.variants) seen.add(variant);
  }
  return withoutNeedless(selected).map(({ name }) => name);
}

/** A kernel by its name, each define that it is compiled with, and what else the check shows of it. */
function variantsOf({ launches, shows = [] }: CheckLaunches, counts: (define: string) => boolean): ReadonlySet<string> {
  const variants = new Set<string>();
  for (const { spec } of launches) {
    variants.add(spec.name);
    for (const what of shows) variants.add(`${spec.name} ${what}`);
    for (const [name, value] of Object.entries(spec.defines)) {
      if (counts(name)) variants.add(`${spec.name} ${name}=${value}`);
    }
  }
  return variants;
}

/** Threads; what each of them does is not known. */
function workOf(launches: readonly RecordedLaunch[]): number {
  return launches.reduce((sum, { grid, block }) => sum + grid[0] * grid[1] * grid[2] * block[0], 0);
}

function hasNew(variants: ReadonlySet<string>, seen: ReadonlySet<string>): boolean {
  for (const variant of variants) if (!seen.has(variant)) return true;
  return false;
}

/** Small checks came first: what they show, larger ones that had to come later may show too. */
function withoutNeedless(selected: readonly Candidate[]): readonly Candidate[] {
  const times = new Map<string, number>();
  for (const { variants } of selected) for (const each of variants) times.set(each, (times.get(each) ?? 0) + 1);
  return selected.filter(({ variants }) => {
    if ([...variants].some((each) => times.get(each) === 1)) return true;
    for (const each of variants) times.set(each, (times.get(each) ?? 0) - 1);
    return false;
  });
}
