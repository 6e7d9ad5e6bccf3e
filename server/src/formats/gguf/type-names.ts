/** Names of ggml's tensor types by number, those that our engine does not read included. Source: enum ggml_type of ggml.h, 0.25. */

const NAMES: ReadonlyMap<number, string> = new Map([
  [0, "f32"],
  [1, "f16"],
  [2, "q4_0"],
  [3, "q4_1"],
  [6, "q5_0"],
  [7, "q5_1"],
  [8, "q8_0"],
  [10, "q2_K"],
  [11, "q3_K"],
  [12, "q4_K"],
  [13, "q5_K"],
  [14, "q6_K"],
  [16, "iq2_xxs"],
  [17, "iq2_xs"],
  [18, "iq3_xxs"],
  [19, "iq1_s"],
  [20, "iq4_nl"],
  [21, "iq3_s"],
  [22, "iq2_s"],
  [23, "iq4_xs"],
  [24, "i8"],
  [25, "i16"],
  [26, "i32"],
  [27, "i64"],
  [28, "f64"],
  [29, "iq1_m"],
  [30, "bf16"],
  [34, "tq1_0"],
  [35, "tq2_0"],
  [39, "mxfp4"],
  [40, "nvfp4"],
  [41, "q1_0"],
  [42, "q2_0"],
]);

/** Its number where the type has no name here. */
export function ggmlTypeName(type: number): string {
  return NAMES.get(type) ?? `type ${type}`;
}
