/** Questions to a V2 server beside inference: what a model is, and what it has done. Over HTTP or gRPC. */
import type { Datatype } from "@nereid/wire";

export interface TensorFacts {
  readonly name: string;
  readonly datatype: Datatype;
  /** As clients see it, batch dimension included; -1 = free. */
  readonly shape: readonly number[];
}

export interface ModelFacts {
  readonly name: string;
  readonly inputs: readonly TensorFacts[];
  readonly outputs: readonly TensorFacts[];
  /** 0: no batch dimension. */
  readonly maxBatchSize: number;
  readonly isDecoupled: boolean;
  readonly isSequence: boolean;
  readonly optionalInputs: ReadonlySet<string>;
}

/** Sums since the model was loaded (Triton's statistics extension). Times in ns. */
export interface ServerStatistics {
  readonly inferenceCount: number;
  readonly executionCount: number;
  readonly successCount: number;
  readonly successNs: number;
  readonly queueNs: number;
  readonly computeInputNs: number;
  readonly computeInferNs: number;
  readonly computeOutputNs: number;
  readonly cacheHitCount: number;
}

export interface ServerApi {
  modelFacts(model: string, version: string): Promise<ModelFacts>;
  /** Undefined: the server has no such extension. */
  statistics(model: string, version: string): Promise<ServerStatistics | undefined>;
  registerMemory(name: string, key: string, byteSize: number): Promise<void>;
  unregisterMemory(name: string): Promise<void>;
  close(): void;
}

/** Messages of both protocols as plain objects, with the names of the .proto files. */
export interface MetadataMessage {
  readonly name: string;
  readonly inputs?: readonly TensorMessage[];
  readonly outputs?: readonly TensorMessage[];
}

interface TensorMessage {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly (number | string)[];
}

export interface ConfigMessage {
  readonly max_batch_size?: number;
  readonly model_transaction_policy?: { readonly decoupled?: boolean } | null;
  readonly sequence_batching?: object | null;
  readonly input?: readonly { readonly name: string; readonly optional?: boolean }[];
}

interface DurationMessage {
  readonly count?: number | string;
  readonly ns?: number | string;
}

export interface StatisticsMessage {
  readonly inference_count?: number | string;
  readonly execution_count?: number | string;
  readonly inference_stats?: Readonly<Record<string, DurationMessage>> | null;
}

/** Without a configuration (another server than Triton) a model is taken to batch nothing. */
export function factsOf(metadata: MetadataMessage, config: ConfigMessage | undefined): ModelFacts {
  const tensors = (list: readonly TensorMessage[] = []): TensorFacts[] =>
    list.map(({ name, datatype, shape }) => ({ name, datatype: datatype as Datatype, shape: shape.map(Number) }));
  return {
    name: metadata.name,
    inputs: tensors(metadata.inputs),
    outputs: tensors(metadata.outputs),
    maxBatchSize: config?.max_batch_size ?? 0,
    isDecoupled: config?.model_transaction_policy?.decoupled === true,
    isSequence: config?.sequence_batching !== undefined && config.sequence_batching !== null,
    optionalInputs: new Set(config?.input?.filter(({ optional }) => optional === true).map(({ name }) => name)),
  };
}

export function statisticsOf({
  inference_count,
  execution_count,
  inference_stats,
}: StatisticsMessage): ServerStatistics {
  const ns = (name: string): number => Number(inference_stats?.[name]?.ns ?? 0);
  const count = (name: string): number => Number(inference_stats?.[name]?.count ?? 0);
  return {
    inferenceCount: Number(inference_count ?? 0),
    executionCount: Number(execution_count ?? 0),
    successCount: count("success"),
    successNs: ns("success"),
    queueNs: ns("queue"),
    computeInputNs: ns("compute_input"),
    computeInferNs: ns("compute_infer"),
    computeOutputNs: ns("compute_output"),
    cacheHitCount: count("cache_hit"),
  };
}

/** Difference of two readings. */
export function statisticsBetween(before: ServerStatistics, after: ServerStatistics): ServerStatistics {
  return combine(after, before, -1);
}

export function addStatistics(first: ServerStatistics, second: ServerStatistics): ServerStatistics {
  return combine(first, second, 1);
}

function combine(first: ServerStatistics, second: ServerStatistics, sign: 1 | -1): ServerStatistics {
  const of = (name: keyof ServerStatistics): number => first[name] + sign * second[name];
  return {
    inferenceCount: of("inferenceCount"),
    executionCount: of("executionCount"),
    successCount: of("successCount"),
    successNs: of("successNs"),
    queueNs: of("queueNs"),
    computeInputNs: of("computeInputNs"),
    computeInferNs: of("computeInferNs"),
    computeOutputNs: of("computeOutputNs"),
    cacheHitCount: of("cacheHitCount"),
  };
}
