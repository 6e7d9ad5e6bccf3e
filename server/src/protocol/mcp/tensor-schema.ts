/**
 * JSON Schema of a tensor as nested lists, one level a dimension. A tensor that may have one element can be a plain value.
 * Sources: JSON Schema 2020-12; KServe V2, "Tensor Data Types".
 */
import type { Datatype } from "@nereid/wire";
import type { TensorMetadata } from "../../core/model-server.ts";
import type { JsonSchema } from "../api/schema.ts";

/** Whole numbers beyond 2^53 are no numbers of JSON for most readers. */
const WIDE_INTEGER: JsonSchema = { anyOf: [{ type: "integer" }, { type: "string", pattern: "^-?[0-9]{1,20}$" }] };
/** JSON has no other form of these. */
const FLOAT: JsonSchema = { anyOf: [{ type: "number" }, { type: "string", enum: ["NaN", "Infinity", "-Infinity"] }] };

function integerSchema(bits: number, isSigned: boolean): JsonSchema {
  const minimum = isSigned ? -(2 ** (bits - 1)) : 0;
  return { type: "integer", minimum, maximum: minimum + 2 ** bits - 1 };
}

const ITEMS: Readonly<Record<Datatype, JsonSchema>> = {
  BOOL: { type: "boolean" },
  UINT8: integerSchema(8, false),
  UINT16: integerSchema(16, false),
  UINT32: integerSchema(32, false),
  UINT64: WIDE_INTEGER,
  INT8: integerSchema(8, true),
  INT16: integerSchema(16, true),
  INT32: integerSchema(32, true),
  INT64: WIDE_INTEGER,
  FP16: FLOAT,
  BF16: FLOAT,
  FP32: FLOAT,
  FP64: FLOAT,
  BYTES: { type: "string" },
};

export function tensorSchema({ datatype, shape }: TensorMetadata): JsonSchema {
  const item = ITEMS[datatype];
  let schema = item;
  for (const dim of [...shape].reverse()) {
    const size = dim === -1 ? {} : { minItems: dim, maxItems: dim };
    schema = { type: "array", items: schema, ...size };
  }
  const mayBePlain = shape.length > 0 && shape.every((dim) => dim === -1 || dim === 1);
  return mayBePlain ? { anyOf: [item, schema] } : schema;
}

/** `FP32[?, 16]`, for people. */
export function tensorText({ name, datatype, shape }: TensorMetadata): string {
  return `${name} ${datatype}[${shape.map((dim) => (dim === -1 ? "?" : dim)).join(", ")}]`;
}
