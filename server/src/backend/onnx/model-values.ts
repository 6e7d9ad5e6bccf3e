/** A model's inputs and outputs in the words of a configuration. Pure. */
import type { ConfigDataType } from "../../core/model-config.ts";
import { ServerError } from "../../core/server-error.ts";
import type { ModelInfo, ValueInfo } from "../../native/onnxruntime/info.ts";
import type { DescribedTensor, ModelDescription } from "../backend.ts";

/** The description for auto-complete. @throws ServerError when the model has an input or output that is not a tensor */
export function describeModel(info: ModelInfo): ModelDescription {
  expectTensors(info);
  return {
    inputs: info.inputs.map(describeValue),
    outputs: info.outputs.map(describeValue),
    canBatch: [...info.inputs, ...info.outputs].every(({ dims }) => dims[0] === -1),
  };
}

export function expectTensors(info: ModelInfo): void {
  for (const { name, kind } of [...info.inputs, ...info.outputs, ...info.overridableInitializers]) {
    if (kind !== "TENSOR") {
      const text = `Unsupported ONNX Type 'ONNX_TYPE_${kind}' for I/O '${name}', expected 'ONNX_TYPE_TENSOR'.`;
      throw new ServerError("unsupported", text);
    }
  }
}

export function configTypeOf({ elementType }: ValueInfo): ConfigDataType {
  const { datatype } = elementType;
  if (datatype === undefined) return "TYPE_INVALID";
  return datatype === "BYTES" ? "TYPE_STRING" : `TYPE_${datatype}`;
}

/** Datatype name for error messages: strings are BYTES, a type without a wire form is "<invalid>". */
export function shownTypeOf({ elementType }: ValueInfo): string {
  return `TYPE_${elementType.datatype ?? "<invalid>"}`;
}

function describeValue(value: ValueInfo): DescribedTensor {
  return { name: value.name, dataType: configTypeOf(value), dims: value.dims };
}
