/** Tests that cost minutes run by `npm run test:long` alone, and are reported as skipped otherwise. */
import process from "node:process";

/** Why a long test is skipped; undefined: it runs. */
export const longTestsReason: string | undefined =
  process.env.NEREID_TEST_LONG === undefined ? "a long test: npm run test:long" : undefined;

/** A sweep is a sample in `npm test`, and whole in `npm run test:long`. */
export function testSize(sample: number, whole: number): number {
  return longTestsReason === undefined ? whole : sample;
}
