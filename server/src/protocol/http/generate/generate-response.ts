/**
 * From a response to the flat JSON object of Triton's generate extension: members in byte order, single elements as
 * scalars.
 */
import type { JsonWriter } from "@nereid/wire";
import type { ParameterValue } from "../../../core/infer-request.ts";
import type { InferResponse } from "../../../core/infer-response.ts";
import { elementCount, type Tensor } from "../../../core/tensor.ts";
import { MAX_SMALL_BYTES, writeElements, writeParameter, writeSmallElements } from "../infer/encode-infer.ts";
import { runAtOnce } from "../transport/slices.ts";

type Member = { readonly text: string } | { readonly parameter: ParameterValue } | { readonly tensor: Tensor };

/** Says where the text of a tensor lies in what was written. */
export type OnTensor = (tensor: Tensor, from: number, to: number) => void;

/** Appends to the caller's object. Among equal names the first counts: reserved, parameter, tensor. */
export function writeGenerateResponse(writer: JsonWriter, response: InferResponse, onTensor?: OnTensor): void {
  const members = new Map<string, Member>();
  if (response.id !== "") members.set("id", { text: response.id });
  members.set("model_name", { text: response.modelName });
  members.set("model_version", { text: response.modelVersion });
  for (const [name, parameter] of response.parameters) if (!members.has(name)) members.set(name, { parameter });
  for (const tensor of response.outputs) if (!members.has(tensor.name)) members.set(tensor.name, { tensor });
  writer.byte(0x7b);
  let isFirst = true;
  for (const name of inByteOrder([...members.keys()])) {
    if (!isFirst) writer.byte(0x2c);
    isFirst = false;
    writer.string(name);
    writer.byte(0x3a);
    const member = members.get(name);
    const from = writer.size;
    writeMember(writer, member);
    if (onTensor !== undefined && member !== undefined && "tensor" in member) {
      onTensor(member.tensor, from, writer.size);
    }
  }
  writer.byte(0x7d);
}

/** Cache of the last names: all responses of a stream have the same. */
let lastNames: readonly string[] = [];
let lastOrder: readonly string[] = [];

function inByteOrder(names: readonly string[]): readonly string[] {
  if (names.length !== lastNames.length || names.some((name, i) => name !== lastNames[i])) {
    lastNames = names;
    lastOrder = [...names].sort(compareBytes);
  }
  return lastOrder;
}

/** The order of UTF-8 bytes, which for characters beyond the basic plane is not that of JavaScript. */
function compareBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

function writeMember(writer: JsonWriter, member: Member | undefined): void {
  if (member === undefined) return;
  if ("text" in member) writer.string(member.text);
  else if ("parameter" in member) writeParameter(writer, member.parameter);
  else writeTensor(writer, member.tensor);
}

/** @throws ServerError when the datatype has no JSON form */
export function writeTensor(writer: JsonWriter, tensor: Tensor): void {
  const count = elementCount(tensor.shape);
  const isScalar = count === 1;
  if (!isScalar) writer.byte(0x5b);
  if (tensor.data.length <= MAX_SMALL_BYTES) writeSmallElements(writer, tensor, count);
  else runAtOnce(writeElements(writer, tensor));
  if (!isScalar) writer.byte(0x5d);
}
