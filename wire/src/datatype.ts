/**
 * The 14 tensor datatypes of the KServe V2 protocol and their element sizes. Source: Open Inference Protocol, "Tensor
 * Data Types"; BF16 and the 4-byte lengths of BYTES are Triton's binary data extension.
 */

export type Datatype =
  | "BOOL"
  | "UINT8"
  | "UINT16"
  | "UINT32"
  | "UINT64"
  | "INT8"
  | "INT16"
  | "INT32"
  | "INT64"
  | "FP16"
  | "FP32"
  | "FP64"
  | "BYTES"
  | "BF16";

/** A datatype whose elements all have the same size: everything but BYTES. */
export type FixedDatatype = Exclude<Datatype, "BYTES">;

const ELEMENT_SIZE: Readonly<Record<FixedDatatype, number>> = {
  BOOL: 1,
  UINT8: 1,
  UINT16: 2,
  UINT32: 4,
  UINT64: 8,
  INT8: 1,
  INT16: 2,
  INT32: 4,
  INT64: 8,
  FP16: 2,
  FP32: 4,
  FP64: 8,
  BF16: 2,
};

/** Bytes of one element. BYTES has no size, so the type refuses to ask. */
export function elementSize(datatype: FixedDatatype): number {
  return ELEMENT_SIZE[datatype];
}

export function isDatatype(text: string): text is Datatype {
  return text === "BYTES" || Object.hasOwn(ELEMENT_SIZE, text);
}
