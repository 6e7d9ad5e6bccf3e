/** All protections that are taken out one by one, by the properties P1 to P24 of SECURITY.md. */
import { ACCESS_MUTANTS } from "./access-mutants.ts";
import { FILE_MUTANTS } from "./file-mutants.ts";
import { HTTP_MUTANTS } from "./http-mutants.ts";
import { HTTP2_MUTANTS } from "./http2-mutants.ts";
import type { Mutant } from "./mutant.ts";
import { PROCESS_MUTANTS } from "./process-mutants.ts";

export const MUTANTS: readonly Mutant[] = [
  ...HTTP_MUTANTS,
  ...HTTP2_MUTANTS,
  ...ACCESS_MUTANTS,
  ...FILE_MUTANTS,
  ...PROCESS_MUTANTS,
];
