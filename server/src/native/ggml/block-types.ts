/**
 * Types whose elements share scales in blocks, with their numbers in enum ggml_type and the sizes of their blocks. Source: ggml.h
 * and ggml-common.h of ggml 0.25.
 */
export const GGML_BLOCK_TYPES = {
  q4_0: { number: 2, numElements: 32, numBytes: 18 },
  q4_1: { number: 3, numElements: 32, numBytes: 20 },
  q5_0: { number: 6, numElements: 32, numBytes: 22 },
  q5_1: { number: 7, numElements: 32, numBytes: 24 },
  q8_0: { number: 8, numElements: 32, numBytes: 34 },
  q2_K: { number: 10, numElements: 256, numBytes: 84 },
  q3_K: { number: 11, numElements: 256, numBytes: 110 },
  q4_K: { number: 12, numElements: 256, numBytes: 144 },
  q5_K: { number: 13, numElements: 256, numBytes: 176 },
  q6_K: { number: 14, numElements: 256, numBytes: 210 },
  iq2_xxs: { number: 16, numElements: 256, numBytes: 66 },
  iq2_xs: { number: 17, numElements: 256, numBytes: 74 },
  iq3_xxs: { number: 18, numElements: 256, numBytes: 98 },
  iq1_s: { number: 19, numElements: 256, numBytes: 50 },
  iq4_nl: { number: 20, numElements: 32, numBytes: 18 },
  iq3_s: { number: 21, numElements: 256, numBytes: 110 },
  iq2_s: { number: 22, numElements: 256, numBytes: 82 },
  iq4_xs: { number: 23, numElements: 256, numBytes: 136 },
  iq1_m: { number: 29, numElements: 256, numBytes: 56 },
  tq1_0: { number: 34, numElements: 256, numBytes: 54 },
  tq2_0: { number: 35, numElements: 256, numBytes: 66 },
  mxfp4: { number: 39, numElements: 32, numBytes: 17 },
} as const;
export type GgmlBlockType = keyof typeof GGML_BLOCK_TYPES;

/** All of them, in the order of their numbers. */
export const GGML_BLOCK_NAMES: readonly GgmlBlockType[] = Object.keys(GGML_BLOCK_TYPES) as GgmlBlockType[];
