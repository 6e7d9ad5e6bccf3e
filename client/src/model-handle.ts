/** One model on a server, for every protocol: its metadata, and inference (Open Inference Protocol, "Inference"). */
import type { CallOptions } from "./call-options.ts";
import { type InferCallOptions, type InferOptions, requestOf } from "./infer-request.ts";
import type { InferResult } from "./infer-result.ts";
import { InferSequence } from "./infer-sequence.ts";
import type { InferenceApi, ModelVersion } from "./inference-api.ts";
import type { JsonRecord } from "./json-document.ts";
import type { ModelMetadata, ModelStatistics } from "./metadata.ts";
import type { ModelTypes } from "./model-types.ts";

export class ModelHandle<M extends ModelTypes = ModelTypes> {
  readonly name: string;
  /** Undefined: the server chooses. */
  readonly version: string | undefined;
  readonly #api: InferenceApi;
  readonly #model: ModelVersion;

  /** @throws RangeError for a name or version that cannot be */
  constructor(api: InferenceApi, name: string, version?: string | number) {
    if (name === "") throw new RangeError("'' is no model name");
    if (version !== undefined && !/^\d+$/.test(String(version))) {
      throw new RangeError(`model version '${version}' is no number`);
    }
    this.#api = api;
    this.name = name;
    this.version = version === undefined ? undefined : String(version);
    this.#model = { name, version: this.version ?? "" };
  }

  isReady(options: CallOptions = {}): Promise<boolean> {
    return this.#api.isModelReady(this.#model, options);
  }

  metadata(options: CallOptions = {}): Promise<ModelMetadata> {
    return this.#api.modelMetadata(this.#model, options);
  }

  /** The completed model configuration, with the field names of `config.pbtxt` (Triton's model configuration extension). */
  config(options: CallOptions = {}): Promise<JsonRecord> {
    return this.#api.modelConfig(this.#model, options);
  }

  /** Statistics, one record for each version (Triton's statistics extension). Large counters are bigints. */
  statistics(options: CallOptions = {}): Promise<readonly ModelStatistics[]> {
    return this.#api.statistics(this.#model, options);
  }

  /** Runs the model once, with binary tensors both ways. @throws ClientError */
  async infer(options: InferOptions<M> & InferCallOptions): Promise<InferResult<M>> {
    return await this.#api.infer<M>(requestOf(this.name, this.#model.version, options), options);
  }

  /** A sequence of requests for one instance of the model. Default of `id`: a random number. */
  sequence(id?: number | bigint | string): InferSequence<M> {
    return new InferSequence((options) => this.infer(options), id);
  }
}
