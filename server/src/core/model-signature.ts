/** The expected form of a model's requests, computed once from its configuration. */
import type { Datatype } from "@nereid/wire";
import type { ConfigDataType, ModelConfig } from "./model-config.ts";
import type { TensorMetadata } from "./model-server.ts";
import { ServerError } from "./server-error.ts";

export interface ExpectedInput {
  readonly name: string;
  readonly datatype: Datatype;
  /** Without the batch dimension; -1: dynamic. */
  readonly dims: readonly number[];
  /** Shape for the backend instead of `dims`, without the batch dimension; undefined = the same. */
  readonly reshape: readonly number[] | undefined;
  readonly optional: boolean;
  readonly allowRaggedBatch: boolean;
  /**
   * A datatype accepted in place of the declared one, with the same bits: INT32 and UINT32 of language-model pipelines.
   */
  readonly alias: Datatype | undefined;
}

export interface ExpectedOutput {
  readonly name: string;
  readonly datatype: Datatype;
  readonly dims: readonly number[];
  readonly reshape: readonly number[] | undefined;
}

export interface ModelSignature {
  readonly modelName: string;
  /** 0 = the model has no batch dimension. */
  readonly maxBatchSize: number;
  readonly inputs: ReadonlyMap<string, ExpectedInput>;
  readonly outputs: ReadonlyMap<string, ExpectedOutput>;
  readonly outputNames: readonly string[];
  readonly numRequiredInputs: number;
}

/** Turns "TYPE_FP32" into "FP32"; TYPE_STRING is BYTES on the wire. @throws ServerError for TYPE_INVALID */
export function datatypeOf(type: ConfigDataType): Datatype {
  if (type === "TYPE_INVALID") throw new ServerError("internal", "TYPE_INVALID is no datatype of a tensor");
  return type === "TYPE_STRING" ? "BYTES" : (type.slice("TYPE_".length) as Datatype);
}

/**
 * TensorRT-LLM pipelines changed their count inputs from UINT32 to INT32 in one release. Clients of both exist, so
 * their models accept either.
 */
const BACKENDS_OF_PIPELINES: ReadonlySet<string> = new Set(["tokenizer", "bls", "llm", "tensorrtllm"]);

function aliasOf(datatype: Datatype, config: ModelConfig): Datatype | undefined {
  if (!BACKENDS_OF_PIPELINES.has(config.backend) && config.ensemble_scheduling === undefined) return undefined;
  if (datatype === "INT32") return "UINT32";
  return datatype === "UINT32" ? "INT32" : undefined;
}

export function signatureOf(config: ModelConfig): ModelSignature {
  const inputs = config.input.map(
    (input): ExpectedInput => ({
      name: input.name,
      datatype: datatypeOf(input.data_type),
      dims: input.dims,
      reshape: input.reshape?.shape,
      optional: input.optional,
      allowRaggedBatch: input.allow_ragged_batch,
      alias: aliasOf(datatypeOf(input.data_type), config),
    }),
  );
  const outputs = config.output.map(
    (output): ExpectedOutput => ({
      name: output.name,
      datatype: datatypeOf(output.data_type),
      dims: output.dims,
      reshape: output.reshape?.shape,
    }),
  );
  return {
    modelName: config.name,
    maxBatchSize: config.max_batch_size,
    inputs: new Map(inputs.map((input) => [input.name, input])),
    outputs: new Map(outputs.map((output) => [output.name, output])),
    outputNames: outputs.map((output) => output.name),
    numRequiredInputs: inputs.filter((input) => !input.optional).length,
  };
}

/** Metadata for clients: with a leading -1 when the model batches. */
export function tensorMetadata(
  tensor: { readonly name: string; readonly datatype: Datatype; readonly dims: readonly number[] },
  maxBatchSize: number,
): TensorMetadata {
  const shape = maxBatchSize > 0 ? [-1, ...tensor.dims] : [...tensor.dims];
  return { name: tensor.name, datatype: tensor.datatype, shape };
}
