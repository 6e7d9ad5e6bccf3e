/** The result of a KServe V2 inference: outputs by name, each with elements of its datatype. */
import { type Datatype, decodeUtf8, type V2InferResponse } from "@nereid/wire";
import { elementsOf, type OutputElements } from "./tensor.ts";

export type ParameterValue = string | number | bigint | boolean | null;

export interface OutputOf<D extends Datatype> {
  readonly name: string;
  readonly datatype: D;
  readonly shape: readonly number[];
  readonly data: OutputElements[D];
}

/** An output of any datatype: `datatype` tells the type of `data`. */
export type OutputTensor = { [D in Datatype]: OutputOf<D> }[Datatype];

export class InferResult {
  /** "" if the request had none. */
  readonly id: string;
  readonly modelName: string;
  readonly modelVersion: string;
  readonly parameters: ReadonlyMap<string, ParameterValue>;
  readonly outputs: readonly OutputTensor[];

  constructor(response: V2InferResponse) {
    this.id = response.id;
    this.modelName = response.modelName;
    this.modelVersion = response.modelVersion;
    this.parameters = new Map([...response.parameters].map(([name, value]) => [name, plainParameter(value)]));
    this.outputs = response.outputs.map(
      ({ name, datatype, shape, data }) =>
        ({ name, datatype, shape, data: elementsOf(datatype, data) }) as OutputTensor,
    );
  }

  /** The output, checked against `datatype` if one is given. @throws RangeError if there is none */
  output(name: string): OutputTensor;
  output<D extends Datatype>(name: string, datatype: D): OutputOf<D>;
  output(name: string, datatype?: Datatype): OutputTensor {
    const found = this.outputs.find((output) => output.name === name);
    if (found === undefined) {
      const names = this.outputs.map((output) => `'${output.name}'`).join(", ");
      throw new RangeError(`model '${this.modelName}' gave no output '${name}', but ${names || "none at all"}`);
    }
    if (datatype !== undefined && found.datatype !== datatype) {
      throw new RangeError(`output '${name}' of model '${this.modelName}' is ${found.datatype}, not ${datatype}`);
    }
    return found;
  }

  /** The elements of a BYTES output decoded as UTF-8. @throws RangeError if there is none */
  texts(name: string): string[] {
    return this.output(name, "BYTES").data.map((bytes) => decodeUtf8(bytes, 0, bytes.length));
  }
}

function plainParameter(value: ParameterValue | { readonly double: number }): ParameterValue {
  return typeof value === "object" && value !== null ? value.double : value;
}
