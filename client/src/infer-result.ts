/** The result of a KServe V2 inference: outputs by name, each with elements of its datatype. */
import { type Datatype, decodeUtf8, type V2Output } from "@nereid/wire";
import { fromBfloat16, fromFloat16 } from "./half-floats.ts";
import type { ModelTypes, OutputName, OutputNamed } from "./model-types.ts";
import type { OutputOf, OutputTensor } from "./output-tensor.ts";
import { elementsOf } from "./tensor.ts";

export type ParameterValue = string | number | bigint | boolean | null;

export interface InferResultParts {
  readonly id: string;
  readonly modelName: string;
  readonly modelVersion: string;
  readonly parameters: ReadonlyMap<string, ParameterValue>;
  readonly outputs: readonly V2Output[];
}

export class InferResult<M extends ModelTypes = ModelTypes> {
  /** "" if the request had none. */
  readonly id: string;
  readonly modelName: string;
  readonly modelVersion: string;
  readonly parameters: ReadonlyMap<string, ParameterValue>;
  readonly outputs: readonly OutputTensor[];

  constructor(parts: InferResultParts) {
    this.id = parts.id;
    this.modelName = parts.modelName;
    this.modelVersion = parts.modelVersion;
    this.parameters = parts.parameters;
    this.outputs = parts.outputs.map(
      ({ name, datatype, shape, data, region }) =>
        ({
          name,
          datatype,
          shape,
          data: elementsOf(datatype, data),
          ...(region === undefined ? {} : { region }),
        }) as OutputTensor,
    );
  }

  /** The response is the last of its request. Always true outside of streams. */
  get isFinal(): boolean {
    return this.parameters.get("triton_final_response") !== false;
  }

  /** The output, checked against `datatype` if one is given. @throws RangeError if there is none */
  output<N extends OutputName<M>>(name: N): OutputNamed<M, N>;
  output<D extends Datatype>(name: OutputName<M>, datatype: D): OutputOf<D>;
  output(name: string, datatype?: Datatype): OutputTensor {
    const found = this.#find(name);
    if (datatype !== undefined && found.datatype !== datatype) {
      throw new RangeError(`output '${name}' of model '${this.modelName}' is ${found.datatype}, not ${datatype}`);
    }
    return found;
  }

  /** The elements of a BYTES output decoded as UTF-8. @throws RangeError if there is none */
  texts(name: OutputName<M>): string[] {
    return this.output(name, "BYTES").data.map((bytes) => decodeUtf8(bytes, 0, bytes.length));
  }

  /** The elements of an FP16, BF16 or FP32 output as numbers. @throws RangeError if there is none */
  floats(name: OutputName<M>): Float32Array {
    const output = this.#find(name);
    if (output.datatype === "FP32") return output.data;
    if (output.datatype === "FP16") return fromFloat16(output.data);
    if (output.datatype === "BF16") return fromBfloat16(output.data);
    throw new RangeError(`output '${name}' of model '${this.modelName}' is ${output.datatype}, not FP16, BF16 or FP32`);
  }

  #find(name: string): OutputTensor {
    const found = this.outputs.find((output) => output.name === name);
    if (found !== undefined) return found;
    const names = this.outputs.map((output) => `'${output.name}'`).join(", ");
    throw new RangeError(`model '${this.modelName}' gave no output '${name}', but ${names || "none at all"}`);
  }
}
