/**
 * For tests and benches of the deterministic mode: one prompt computed in several ways, and where the bits of its logits
 * are not the same.
 */
import type { StepRunner } from "../step-runner.ts";
import { append, contiguousBlocks, TestSequence } from "./sequences.ts";

/** How a prompt is computed: in which blocks, in which chunks, beside how many others. */
export interface Course {
  readonly blocks: readonly number[];
  /** The last takes what is left. */
  readonly chunks: readonly number[];
  readonly company: number;
}

const FIRST_COMPANY_BLOCK = 512;
const BLOCKS_OF_COMPANY = 32;

/** Runner capacity needed for that many concurrent courses. */
export function courseBlocks(mostCompany: number): number {
  return FIRST_COMPANY_BLOCK + mostCompany * BLOCKS_OF_COMPANY;
}

export function coursesOf(numTokens: number, blockSize: number, mostCompany = 8): readonly Course[] {
  const numBlocks = Math.ceil(numTokens / blockSize);
  const inOrder = contiguousBlocks(2, numBlocks);
  const scattered = inOrder.map((i) => (i * 37 + 11) % (FIRST_COMPANY_BLOCK - 1));
  return [
    { blocks: inOrder, chunks: [], company: 0 },
    { blocks: scattered, chunks: [], company: 1 },
    { blocks: scattered, chunks: [1, 2, 7, 3], company: 5 },
    { blocks: inOrder, chunks: Array.from({ length: numTokens - 4 }, () => 1), company: 2 },
    { blocks: inOrder, chunks: [numTokens - 6, 1, 1, 1, 1], company: mostCompany },
  ];
}

export interface ComparedCourses {
  readonly numCompared: number;
  /** In words, each row that was not as in the courses before. */
  readonly differences: readonly string[];
}

/** The rows after the last token of each chunk, each compared with those of the courses before. */
export async function compareCourses(
  runner: StepRunner,
  tokens: readonly number[],
  courses: readonly Course[],
): Promise<ComparedCourses> {
  const expected = new Map<number, Buffer>();
  const differences: string[] = [];
  let numCompared = 0;
  for (const [number, course] of courses.entries()) {
    for (const [at, row] of await rowsOf(runner, tokens, course)) {
      const before = expected.get(at);
      expected.set(at, row);
      if (before === undefined) continue;
      numCompared += 1;
      if (!before.equals(row)) differences.push(`course ${number} differs after ${at} tokens`);
    }
  }
  return { numCompared, differences };
}

async function rowsOf(
  runner: StepRunner,
  tokens: readonly number[],
  { blocks, chunks, company }: Course,
): Promise<Map<number, Buffer>> {
  const sequence = new TestSequence(blocks);
  const others = Array.from(
    { length: company },
    (_, i) => new TestSequence(contiguousBlocks(FIRST_COMPANY_BLOCK + i * BLOCKS_OF_COMPANY, BLOCKS_OF_COMPANY)),
  );
  const rows = new Map<number, Buffer>();
  for (let at = 0, i = 0; at < tokens.length; i++) {
    const next = tokens.slice(at, at + (chunks[i] ?? tokens.length));
    const parts = others.map((other, number) => ({
      sequence: other.numCached < BLOCKS_OF_COMPANY * runner.blockSize - 1 ? other : restarted(other),
      tokens: [tokens[(at + number) % tokens.length] ?? 0],
    }));
    const results = await append(runner, [...parts, { sequence, tokens: next }]);
    at += next.length;
    rows.set(at, Buffer.from(results.at(-1)?.slice().buffer ?? new ArrayBuffer(0)));
  }
  return rows;
}

function restarted(sequence: TestSequence): TestSequence {
  sequence.numCached = 0;
  return sequence;
}
