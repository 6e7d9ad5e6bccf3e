/** Tensor parameters that locate data in shared memory (Triton's system shared memory extension). */
import type { InferParameter, InferParameters } from "@nereid/wire";
import { invalidArgument, type ServerError } from "../../../core/server-error.ts";
import type { RegionPart } from "../../request-memory.ts";

const BITS = 64;

/** Undefined for a tensor that is in the message. @throws ServerError for parameters that do not fit together */
export function readRegionPart(tensor: {
  readonly name: string;
  readonly parameters: InferParameters;
}): RegionPart | undefined {
  const { name, parameters } = tensor;
  const region = parameters.get("shared_memory_region");
  const offset = parameters.get("shared_memory_offset");
  const byteSize = parameters.get("shared_memory_byte_size");
  if (region === undefined) {
    if (offset !== undefined) throw withoutRegion("shared_memory_offset", name);
    if (byteSize !== undefined) throw withoutRegion("shared_memory_byte_size", name);
    return undefined;
  }
  if (region.kind !== "string") throw wrongType("shared_memory_region", name, "string_param");
  const from = offset === undefined ? 0n : unsigned(offset, "shared_memory_offset", name);
  if (byteSize !== undefined) {
    return { region: region.value, offset: from, byteSize: unsigned(byteSize, "shared_memory_byte_size", name) };
  }
  throw invalidArgument(
    `'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for tensor '${name}'`,
  );
}

/** A negative number is a huge one, as upstream: so it is outside of any region. */
function unsigned(parameter: InferParameter, key: string, tensor: string): bigint {
  if (parameter.kind !== "int64") throw wrongType(key, tensor, "int64_param");
  return BigInt.asUintN(BITS, BigInt(parameter.value));
}

function withoutRegion(key: string, tensor: string): ServerError {
  return invalidArgument(
    `'${key}' can not be specified without 'shared_memory_region' parameter for tensor '${tensor}'`,
  );
}

function wrongType(key: string, tensor: string, expected: string): ServerError {
  return invalidArgument(`invalid value type for '${key}' parameter for tensor '${tensor}', expected ${expected}.`);
}
