/** Turns stored elements into another type with the library's own functions, for programs that run no model. */
import { openGgml } from "../../native/ggml/ggml.ts";
import { convertElements, type WeightType } from "./convert-elements.ts";

/** Little-endian elements in, the same number out. Equal types give back the bytes themselves. */
export type ElementConverter = (from: WeightType, to: WeightType, bytes: Uint8Array) => Uint8Array;

/** @throws Error when the library is not there */
export function createElementConverter(): ElementConverter {
  const ggml = openGgml();
  return (from, to, bytes) => convertElements(ggml, from, to, bytes);
}
