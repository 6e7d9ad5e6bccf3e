/**
 * Input tensors of an inference request: finds the data of each, raw_input_contents or typed contents (KServe V2, gRPC,
 * "Tensor Data"). The model version checks shapes and sizes.
 */
import { contentsAs, type InferInputMessage, type InferRequestMessage, isDatatype } from "@nereid/wire";
import type { ServedModel } from "../../../core/model-server.ts";
import { invalidArgument } from "../../../core/server-error.ts";
import { INVALID_DATATYPE, type Tensor } from "../../../core/tensor.ts";
import type { RequestMemory } from "../../request-memory.ts";
import { readRegionPart } from "./region-part.ts";

const NO_DATA: Uint8Array = new Uint8Array(0);

/** @throws ServerError for the first input without usable data */
export function readInputs(message: InferRequestMessage, model: ServedModel, memory: RequestMemory): readonly Tensor[] {
  const tensors: Tensor[] = [];
  const raw = message.rawInputContents;
  let rawIndex = 0;
  for (const input of message.inputs) {
    let data = input.parameters.size === 0 ? undefined : regionData(input, model, memory);
    if (data !== undefined) {
      // nothing of the message belongs to it
    } else if (input.contents === undefined) data = raw[rawIndex++];
    else if (raw.length === 0) data = typedData(input, model.name);
    else {
      throw invalidArgument(
        `contents field must not be specified when using raw_input_contents for '${input.name}' for model '${model.name}'`,
      );
    }
    if (data === undefined) {
      throw invalidArgument(
        `unable to find data for input tensor '${input.name}' for model '${model.name}' in request.`,
      );
    }
    tensors.push({
      name: input.name,
      datatype: isDatatype(input.datatype) ? input.datatype : INVALID_DATATYPE,
      shape: input.shape,
      data,
    });
  }
  return tensors;
}

/**
 * Undefined for an input that is not in shared memory. The client may write while the model reads: that must not move the
 * borders of strings once they are checked, nor change what an answer, kept for others, was the answer to.
 */
function regionData(input: InferInputMessage, model: ServedModel, memory: RequestMemory): Uint8Array | undefined {
  const part = readRegionPart(input);
  if (part === undefined) return undefined;
  const bytes = memory.bytes(part);
  const mustCopy = input.datatype === "BYTES" || model.config.response_cache?.enable === true;
  return mustCopy ? bytes.slice() : bytes;
}

/** No member with elements is no error here: a tensor may be empty. */
function typedData(input: InferInputMessage, model: string): Uint8Array {
  const where = `for input tensor '${input.name}' for model '${model}'`;
  let data = NO_DATA;
  for (const contents of input.contents ?? []) {
    if (data.length > 0)
      throw invalidArgument(`unexpected explicit tensor data ${where}, binary data was already supplied.`);
    const converted = isDatatype(input.datatype) ? contentsAs(contents, input.datatype) : undefined;
    if (converted === undefined) {
      const expected = isDatatype(input.datatype) ? input.datatype : INVALID_DATATYPE;
      throw invalidArgument(
        `unexpected explicit tensor data ${where} of type '${contents.kind}', expected datatype '${expected}'`,
      );
    }
    data = converted;
  }
  return data;
}
