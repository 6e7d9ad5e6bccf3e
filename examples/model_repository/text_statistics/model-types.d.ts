// Written by "nereid types" from config.pbtxt: run it again when that changes.
/**
 * The interface of a model in TypeScript: types alone, without imports. `nereid types` writes this text beside models,
 * with the types of their tensors, so that a model needs no package.
 */
export type Datatype = "BOOL" | "UINT8" | "UINT16" | "UINT32" | "UINT64" | "INT8" | "INT16" | "INT32" | "INT64" | "FP16" | "BF16" | "FP32" | "FP64" | "BYTES";
/** How the elements of each datatype lie in `data`. FP16 and BF16 are bits; `floats` has them as numbers. */
export interface ElementsOf {
    BOOL: Uint8Array;
    UINT8: Uint8Array;
    UINT16: Uint16Array;
    UINT32: Uint32Array;
    UINT64: BigUint64Array;
    INT8: Int8Array;
    INT16: Int16Array;
    INT32: Int32Array;
    INT64: BigInt64Array;
    FP16: Uint16Array;
    BF16: Uint16Array;
    FP32: Float32Array;
    FP64: Float64Array;
    BYTES: readonly Uint8Array[];
}
export interface Tensor<D extends Datatype = Datatype> {
    readonly name: string;
    readonly datatype: D;
    readonly shape: readonly number[];
    /** The elements, row by row. They belong to this request alone: change them as you like. */
    readonly data: ElementsOf[D];
    /** The elements as text: of BYTES decoded as UTF-8. */
    readonly strings: readonly string[];
    /** The elements as 32-bit floats, converted from any datatype. */
    readonly floats: Float32Array;
}
/** Values accepted for a tensor of a datatype, beside the array type of its `data`. */
interface AlternativesOf {
    BOOL: readonly boolean[] | boolean;
    UINT8: readonly number[] | number;
    UINT16: readonly number[] | number;
    UINT32: readonly number[] | number;
    UINT64: readonly (number | bigint)[] | number | bigint;
    INT8: readonly number[] | number;
    INT16: readonly number[] | number;
    INT32: readonly number[] | number;
    INT64: readonly (number | bigint)[] | number | bigint;
    FP16: Float32Array | readonly number[] | number;
    BF16: Float32Array | readonly number[] | number;
    FP32: readonly number[] | number;
    FP64: readonly number[] | number;
    BYTES: readonly (string | Uint8Array)[] | string;
}
export type Elements<D extends Datatype = Datatype> = D extends Datatype ? ElementsOf[D] | AlternativesOf[D] : never;
/** A tensor to send. The shape may be left out where the configuration and the number of elements tell it. */
export type TensorValue<D extends Datatype = Datatype> = Elements<D> | Tensor<D> | {
    readonly data: Elements<D>;
    readonly shape?: readonly number[];
    readonly datatype?: D;
};
export type ParameterValue = string | boolean | number | bigint;
export interface CallOptions {
    /** Outputs wanted; all of the model when left out. */
    readonly outputs?: readonly string[];
    readonly parameters?: Readonly<Record<string, ParameterValue>>;
    /** Version of the model to call; default: the server's choice. */
    readonly version?: number | string;
    readonly id?: string;
    readonly sequence?: {
        readonly id: bigint | number | string;
        readonly start?: boolean;
        readonly end?: boolean;
    };
    /** How long the call may wait in the queue of the other model. */
    readonly timeoutUs?: number;
    readonly priority?: number;
    readonly signal?: AbortSignal;
}
/** Another model of the same server. `I`: what it takes, `O`: what it gives. */
export interface ModelHandle<I = Readonly<Record<string, TensorValue>>, O = Readonly<Record<string, Tensor>>> {
    /** One answer. Throws when the model fails, is not there, or gives more than one answer. */
    infer(inputs: I, options?: CallOptions): Promise<O>;
    /** All answers of a decoupled model, as they come. Leaving the loop cancels the rest. */
    stream(inputs: I, options?: CallOptions): AsyncIterable<O>;
}
/** By name: `models.resnet`, `models["my-model"]`. */
export interface Models {
    readonly [name: string]: ModelHandle;
}
export type Labels = Readonly<Record<string, string>>;
/** On the server's metrics page, with the labels `model` and `version` in front of your own. */
export interface Metrics {
    counter(name: string, help: string): {
        increment(by?: number, labels?: Labels): void;
    };
    gauge(name: string, help: string): {
        set(value: number, labels?: Labels): void;
    };
    /** `buckets`: upper bounds, ascending. */
    histogram(name: string, help: string, buckets: readonly number[]): {
        observe(value: number, labels?: Labels): void;
    };
}
/** The server's log. `console.log` ends up there as well. */
export interface Log {
    info(message: string): void;
    warn(message: string): void;
    error(message: string): void;
    /** Shown at `--log-verbose=1` and above. */
    verbose(message: string): void;
}
/** Error codes that reach the client with the message; every other error counts as "internal". */
export type ErrorCode = "unknown" | "internal" | "not_found" | "invalid_argument" | "unavailable" | "unsupported" | "already_exists" | "cancelled";
/** One instance of the model: there are as many as `instance_group` says, each in a thread of its own. */
export interface Context<M = Models> {
    readonly name: string;
    readonly version: number;
    readonly instanceName: string;
    /** The configuration of the model, complete, by the names of `config.pbtxt`. */
    readonly config: Readonly<Record<string, unknown>>;
    /** `parameters` of the configuration. */
    readonly parameters: Readonly<Record<string, string>>;
    readonly modelFolder: string;
    readonly versionFolder: string;
    readonly models: M;
    readonly metrics: Metrics;
    readonly log: Log;
    /** An error to throw that clients see with a code of its own. */
    error(code: ErrorCode, message: string): Error;
}
/** One request. `I`: its inputs, `O`: what it is answered with, `S`: what a sequence keeps, `M`: the models to call. */
export interface Request<I, O, S, M = Models> {
    readonly id: string;
    readonly inputs: I;
    /** Rows of the inputs; 1 for a model without a batch dimension. */
    readonly batchSize: number;
    /** Outputs that the client wants; others may be left out. */
    readonly outputNames: readonly string[];
    readonly parameters: Readonly<Record<string, ParameterValue>>;
    /** Undefined when the request belongs to no sequence. */
    readonly sequence: {
        readonly id: bigint | string;
        readonly start: boolean;
        readonly end: boolean;
    } | undefined;
    /** Kept from request to request of one sequence, and dropped with its end. Starts as `{}`. */
    state: S;
    /** Aborted when the client has gone or given up. */
    readonly signal: AbortSignal;
    /** Other models, called for this request: what is called is cancelled and traced with it. */
    readonly models: M;
    /** Decoupled models: one answer, before `execute` ends. Resolves when the client keeps up. */
    send(outputs: O): Promise<void>;
}
/** Results of `execute`: outputs by name; for a decoupled model many of them, or nothing after `send`. */
export type Answer<O> = O | void | AsyncIterable<O> | Promise<O | void>;
/** The exports of `model.ts`: as names, or as the members of its default export. */
export interface BaseModel<I, O, S = Record<string, unknown>, M = Models> {
    /** Called once, before the first request. If it throws, the model does not load. */
    initialize?(context: Context<M>): void | Promise<void>;
    /** Answers one request; the requests of a batch run side by side. */
    execute?(request: Request<I, O, S, M>, context: Context<M>): Answer<O>;
    /** In place of `execute`: answers a whole batch at once, in order. An Error answers its request alone. */
    executeBatch?(requests: readonly Request<I, O, S, M>[], context: Context<M>): readonly (O | Error)[] | Promise<readonly (O | Error)[]>;
    /** Once, when the model is unloaded. */
    finalize?(context: Context<M>): void | Promise<void>;
}
export interface BatchInput {
    readonly datatype: Datatype;
    readonly shape: readonly number[];
    readonly byteSize: number;
}
/** A waiting request, as a batch strategy sees it. */
export interface BatchRequest {
    readonly id: string;
    readonly batchSize: number;
    readonly priority: number;
    readonly timeoutUs: number;
    readonly inputs: Readonly<Record<string, BatchInput>>;
    readonly parameters: Readonly<Record<string, ParameterValue>>;
}
/** The exports of `batchstrategy.ts`. `B`: what it notes about the batch that it forms. */
export interface BatchStrategy<B> {
    /** A batch begins; `{}` when left out. */
    startBatch?(context: {
        readonly name: string;
        readonly maxBatchSize: number;
        readonly parameters: Readonly<Record<string, string>>;
    }): B;
    /** Asked in the order of the queue. The first request goes in whatever is said; the first `false` after it ends the batch. */
    includeRequest(batch: B, request: BatchRequest): boolean;
}

/** Input tensors of a request to 'text_statistics'. */
export interface Inputs {
  /** Shape [-1, 1]. */
  readonly TEXT: Tensor<"BYTES">;
}

/** Output tensors of a response. */
export interface Outputs {
  /** Shape [-1, 1]. */
  readonly WORDS: TensorValue<"INT32">;
  /** Shape [-1, 1]. */
  readonly TOKENS: TensorValue<"INT32">;
  /** Shape [-1, 1]. */
  readonly LONGEST_WORD: TensorValue<"BYTES">;
}

/** The models of its repository. */
export interface Repository extends Models {
  readonly ensemble: ModelHandle<
    {
      readonly text_input: TensorValue<"BYTES">;
      readonly decoder_text_input?: TensorValue<"BYTES">;
      readonly max_tokens: TensorValue<"INT32">;
      readonly bad_words?: TensorValue<"BYTES">;
      readonly stop_words?: TensorValue<"BYTES">;
      readonly end_id?: TensorValue<"INT32">;
      readonly pad_id?: TensorValue<"INT32">;
      readonly top_k?: TensorValue<"INT32">;
      readonly top_p?: TensorValue<"FP32">;
      readonly temperature?: TensorValue<"FP32">;
      readonly length_penalty?: TensorValue<"FP32">;
      readonly repetition_penalty?: TensorValue<"FP32">;
      readonly min_tokens?: TensorValue<"INT32">;
      readonly min_length?: TensorValue<"INT32">;
      readonly presence_penalty?: TensorValue<"FP32">;
      readonly frequency_penalty?: TensorValue<"FP32">;
      readonly seed?: TensorValue<"UINT64">;
      readonly random_seed?: TensorValue<"UINT64">;
      readonly return_log_probs?: TensorValue<"BOOL">;
      readonly return_context_logits?: TensorValue<"BOOL">;
      readonly return_generation_logits?: TensorValue<"BOOL">;
      readonly return_perf_metrics?: TensorValue<"BOOL">;
      readonly return_kv_cache_reuse_stats?: TensorValue<"BOOL">;
      readonly return_num_input_tokens?: TensorValue<"BOOL">;
      readonly return_num_output_tokens?: TensorValue<"BOOL">;
      readonly exclude_input_in_output?: TensorValue<"BOOL">;
      readonly num_return_sequences?: TensorValue<"INT32">;
      readonly beam_width?: TensorValue<"INT32">;
      readonly stream?: TensorValue<"BOOL">;
      readonly prompt_embedding_table?: TensorValue<"FP16">;
      readonly prompt_vocab_size?: TensorValue<"INT32">;
      readonly prompt_table_extra_id?: TensorValue<"UINT64">;
      readonly embedding_bias_words?: TensorValue<"BYTES">;
      readonly embedding_bias_weights?: TensorValue<"FP32">;
      readonly lora_task_id?: TensorValue<"UINT64">;
      readonly lora_weights?: TensorValue<"FP16">;
      readonly lora_config?: TensorValue<"INT32">;
      readonly lora_name?: TensorValue<"BYTES">;
      readonly cache_salt?: TensorValue<"BYTES">;
      readonly guided_decoding_guide_type?: TensorValue<"BYTES">;
      readonly guided_decoding_guide?: TensorValue<"BYTES">;
    },
    {
      readonly text_output: Tensor<"BYTES">;
      readonly cum_log_probs: Tensor<"FP32">;
      readonly output_log_probs: Tensor<"FP32">;
      readonly context_logits: Tensor<"FP32">;
      readonly generation_logits: Tensor<"FP32">;
      readonly batch_index: Tensor<"INT32">;
      readonly sequence_index: Tensor<"INT32">;
    }
  >;
  readonly postprocessing: ModelHandle<
    {
      readonly TOKENS_BATCH: TensorValue<"INT32">;
      readonly SEQUENCE_LENGTH: TensorValue<"INT32">;
      readonly BATCH_INDEX?: TensorValue<"INT32">;
      readonly SEQUENCE_INDEX?: TensorValue<"INT32">;
    },
    {
      readonly OUTPUT: Tensor<"BYTES">;
    }
  >;
  readonly preprocessing: ModelHandle<
    {
      readonly QUERY: TensorValue<"BYTES">;
      readonly DECODER_QUERY?: TensorValue<"BYTES">;
      readonly IMAGE_BYTES?: TensorValue<"UINT8">;
      readonly IMAGE_URL?: TensorValue<"BYTES">;
      readonly IMAGES?: TensorValue<"BYTES">;
      readonly VIDEO_BYTES?: TensorValue<"UINT8">;
      readonly REQUEST_OUTPUT_LEN: TensorValue<"INT32">;
      readonly BAD_WORDS_DICT?: TensorValue<"BYTES">;
      readonly STOP_WORDS_DICT?: TensorValue<"BYTES">;
      readonly EMBEDDING_BIAS_WORDS?: TensorValue<"BYTES">;
      readonly EMBEDDING_BIAS_WEIGHTS?: TensorValue<"FP32">;
      readonly END_ID?: TensorValue<"INT32">;
      readonly PAD_ID?: TensorValue<"INT32">;
      readonly PROMPT_TABLE_EXTRA_ID?: TensorValue<"UINT64">;
    },
    {
      readonly INPUT_ID: Tensor<"INT32">;
      readonly REQUEST_INPUT_LEN: Tensor<"INT32">;
      readonly DECODER_INPUT_ID: Tensor<"INT32">;
      readonly REQUEST_DECODER_INPUT_LEN: Tensor<"INT32">;
      readonly BAD_WORDS_IDS: Tensor<"INT32">;
      readonly STOP_WORDS_IDS: Tensor<"INT32">;
      readonly EMBEDDING_BIAS: Tensor<"FP32">;
      readonly REQUEST_OUTPUT_LEN: Tensor<"INT32">;
      readonly OUT_END_ID: Tensor<"INT32">;
      readonly OUT_PAD_ID: Tensor<"INT32">;
      readonly OUT_PROMPT_TABLE_EXTRA_IDS: Tensor<"UINT64">;
    }
  >;
  readonly simple: ModelHandle<
    {
      readonly INPUT0: TensorValue<"INT32">;
      readonly INPUT1: TensorValue<"INT32">;
    },
    {
      readonly OUTPUT0: Tensor<"INT32">;
      readonly OUTPUT1: Tensor<"INT32">;
    }
  >;
  readonly tensorrt_llm: ModelHandle<
    {
      readonly input_ids?: TensorValue<"INT32">;
      readonly encoder_input_features?: TensorValue<"FP16">;
      readonly encoder_output_lengths?: TensorValue<"INT32">;
      readonly input_lengths: TensorValue<"INT32">;
      readonly request_output_len: TensorValue<"INT32">;
      readonly num_return_sequences?: TensorValue<"INT32">;
      readonly draft_input_ids?: TensorValue<"INT32">;
      readonly decoder_input_ids?: TensorValue<"INT32">;
      readonly decoder_input_lengths?: TensorValue<"INT32">;
      readonly draft_logits?: TensorValue<"FP32">;
      readonly draft_acceptance_threshold?: TensorValue<"FP32">;
      readonly end_id?: TensorValue<"INT32">;
      readonly pad_id?: TensorValue<"INT32">;
      readonly stop_words_list?: TensorValue<"INT32">;
      readonly bad_words_list?: TensorValue<"INT32">;
      readonly embedding_bias?: TensorValue<"FP32">;
      readonly beam_width?: TensorValue<"INT32">;
      readonly temperature?: TensorValue<"FP32">;
      readonly runtime_top_k?: TensorValue<"INT32">;
      readonly runtime_top_p?: TensorValue<"FP32">;
      readonly runtime_top_p_min?: TensorValue<"FP32">;
      readonly runtime_top_p_decay?: TensorValue<"FP32">;
      readonly runtime_top_p_reset_ids?: TensorValue<"INT32">;
      readonly runtime_min_p?: TensorValue<"FP32">;
      readonly len_penalty?: TensorValue<"FP32">;
      readonly early_stopping?: TensorValue<"BOOL">;
      readonly beam_search_diversity_rate?: TensorValue<"FP32">;
      readonly repetition_penalty?: TensorValue<"FP32">;
      readonly min_tokens?: TensorValue<"INT32">;
      readonly min_length?: TensorValue<"INT32">;
      readonly presence_penalty?: TensorValue<"FP32">;
      readonly frequency_penalty?: TensorValue<"FP32">;
      readonly prompt_ignore_length?: TensorValue<"INT32">;
      readonly no_repeat_ngram_size?: TensorValue<"INT32">;
      readonly seed?: TensorValue<"UINT64">;
      readonly random_seed?: TensorValue<"UINT64">;
      readonly return_log_probs?: TensorValue<"BOOL">;
      readonly num_top_log_probs?: TensorValue<"INT32">;
      readonly return_prompt_log_probs?: TensorValue<"BOOL">;
      readonly return_context_logits?: TensorValue<"BOOL">;
      readonly return_generation_logits?: TensorValue<"BOOL">;
      readonly return_perf_metrics?: TensorValue<"BOOL">;
      readonly return_kv_cache_reuse_stats?: TensorValue<"BOOL">;
      readonly return_num_input_tokens?: TensorValue<"BOOL">;
      readonly return_num_output_tokens?: TensorValue<"BOOL">;
      readonly exclude_input_in_output?: TensorValue<"BOOL">;
      readonly stop?: TensorValue<"BOOL">;
      readonly streaming?: TensorValue<"BOOL">;
      readonly prompt_embedding_table?: TensorValue<"FP16">;
      readonly prompt_table_extra_ids?: TensorValue<"UINT64">;
      readonly prompt_vocab_size?: TensorValue<"INT32">;
      readonly cross_attention_mask?: TensorValue<"BOOL">;
      readonly skip_cross_attn_blocks?: TensorValue<"BOOL">;
      readonly mrope_rotary_cos_sin?: TensorValue<"FP32">;
      readonly mrope_position_deltas?: TensorValue<"INT64">;
      readonly lora_task_id?: TensorValue<"UINT64">;
      readonly lora_weights?: TensorValue<"FP16">;
      readonly lora_config?: TensorValue<"INT32">;
      readonly lora_name?: TensorValue<"BYTES">;
      readonly lora_path?: TensorValue<"BYTES">;
      readonly lora_ckpt_source?: TensorValue<"BYTES">;
      readonly cache_salt?: TensorValue<"BYTES">;
      readonly context_phase_params?: TensorValue<"UINT8">;
      readonly retention_token_range_starts?: TensorValue<"INT32">;
      readonly retention_token_range_ends?: TensorValue<"INT32">;
      readonly retention_token_range_priorities?: TensorValue<"INT32">;
      readonly retention_token_range_durations_ms?: TensorValue<"INT32">;
      readonly retention_decode_priority?: TensorValue<"INT32">;
      readonly retention_decode_duration_ms?: TensorValue<"INT32">;
      readonly guided_decoding_guide_type?: TensorValue<"BYTES">;
      readonly guided_decoding_guide?: TensorValue<"BYTES">;
      readonly logits_post_processor_name?: TensorValue<"BYTES">;
      readonly lookahead_window_size?: TensorValue<"INT32">;
      readonly lookahead_ngram_size?: TensorValue<"INT32">;
      readonly lookahead_verification_set_size?: TensorValue<"INT32">;
    },
    {
      readonly output_ids: Tensor<"INT32">;
      readonly sequence_length: Tensor<"INT32">;
      readonly cum_log_probs: Tensor<"FP32">;
      readonly output_log_probs: Tensor<"FP32">;
      readonly context_logits: Tensor<"FP32">;
      readonly generation_logits: Tensor<"FP32">;
      readonly batch_index: Tensor<"INT32">;
      readonly sequence_index: Tensor<"INT32">;
      readonly context_phase_params: Tensor<"UINT8">;
      readonly kv_cache_alloc_new_blocks: Tensor<"INT32">;
      readonly kv_cache_reused_blocks: Tensor<"INT32">;
      readonly kv_cache_alloc_total_blocks: Tensor<"INT32">;
      readonly arrival_time_ns: Tensor<"INT64">;
      readonly first_scheduled_time_ns: Tensor<"INT64">;
      readonly first_token_time_ns: Tensor<"INT64">;
      readonly last_token_time_ns: Tensor<"INT64">;
      readonly acceptance_rate: Tensor<"FP32">;
      readonly total_accepted_draft_tokens: Tensor<"INT32">;
      readonly total_draft_tokens: Tensor<"INT32">;
      readonly num_input_tokens: Tensor<"INT32">;
      readonly num_output_tokens: Tensor<"INT32">;
      readonly top_log_prob_ids: Tensor<"INT32">;
      readonly top_log_probs: Tensor<"FP32">;
      readonly prompt_log_probs: Tensor<"FP32">;
      readonly prompt_top_log_prob_ids: Tensor<"INT32">;
      readonly prompt_top_log_probs: Tensor<"FP32">;
    }
  >;
  readonly tensorrt_llm_bls: ModelHandle<
    {
      readonly text_input: TensorValue<"BYTES">;
      readonly decoder_text_input?: TensorValue<"BYTES">;
      readonly max_tokens: TensorValue<"INT32">;
      readonly bad_words?: TensorValue<"BYTES">;
      readonly stop_words?: TensorValue<"BYTES">;
      readonly end_id?: TensorValue<"INT32">;
      readonly pad_id?: TensorValue<"INT32">;
      readonly top_k?: TensorValue<"INT32">;
      readonly top_p?: TensorValue<"FP32">;
      readonly temperature?: TensorValue<"FP32">;
      readonly length_penalty?: TensorValue<"FP32">;
      readonly repetition_penalty?: TensorValue<"FP32">;
      readonly min_tokens?: TensorValue<"INT32">;
      readonly min_length?: TensorValue<"INT32">;
      readonly presence_penalty?: TensorValue<"FP32">;
      readonly frequency_penalty?: TensorValue<"FP32">;
      readonly seed?: TensorValue<"UINT64">;
      readonly random_seed?: TensorValue<"UINT64">;
      readonly return_log_probs?: TensorValue<"BOOL">;
      readonly return_context_logits?: TensorValue<"BOOL">;
      readonly return_generation_logits?: TensorValue<"BOOL">;
      readonly return_perf_metrics?: TensorValue<"BOOL">;
      readonly return_kv_cache_reuse_stats?: TensorValue<"BOOL">;
      readonly return_num_input_tokens?: TensorValue<"BOOL">;
      readonly return_num_output_tokens?: TensorValue<"BOOL">;
      readonly exclude_input_in_output?: TensorValue<"BOOL">;
      readonly num_return_sequences?: TensorValue<"INT32">;
      readonly beam_width?: TensorValue<"INT32">;
      readonly stream?: TensorValue<"BOOL">;
      readonly prompt_embedding_table?: TensorValue<"FP16">;
      readonly prompt_vocab_size?: TensorValue<"INT32">;
      readonly prompt_table_extra_id?: TensorValue<"UINT64">;
      readonly embedding_bias_words?: TensorValue<"BYTES">;
      readonly embedding_bias_weights?: TensorValue<"FP32">;
      readonly lora_task_id?: TensorValue<"UINT64">;
      readonly lora_weights?: TensorValue<"FP16">;
      readonly lora_config?: TensorValue<"INT32">;
      readonly lora_name?: TensorValue<"BYTES">;
      readonly cache_salt?: TensorValue<"BYTES">;
      readonly guided_decoding_guide_type?: TensorValue<"BYTES">;
      readonly guided_decoding_guide?: TensorValue<"BYTES">;
      readonly image_input?: TensorValue<"FP16">;
      readonly image_bytes_input?: TensorValue<"UINT8">;
      readonly image_url_input?: TensorValue<"BYTES">;
      readonly video_bytes_input?: TensorValue<"UINT8">;
      readonly num_draft_tokens?: TensorValue<"INT32">;
      readonly use_draft_logits?: TensorValue<"BOOL">;
    },
    {
      readonly text_output: Tensor<"BYTES">;
      readonly cum_log_probs: Tensor<"FP32">;
      readonly output_log_probs: Tensor<"FP32">;
      readonly context_logits: Tensor<"FP32">;
      readonly generation_logits: Tensor<"FP32">;
      readonly batch_index: Tensor<"INT32">;
      readonly sequence_index: Tensor<"INT32">;
    }
  >;
  readonly text_encoder: ModelHandle<
    {
      readonly input_ids: TensorValue<"INT64">;
      readonly attention_mask: TensorValue<"INT64">;
    },
    {
      readonly text_embeds: Tensor<"FP32">;
    }
  >;
  readonly text_statistics: ModelHandle<
    {
      readonly TEXT: TensorValue<"BYTES">;
    },
    {
      readonly WORDS: Tensor<"INT32">;
      readonly TOKENS: Tensor<"INT32">;
      readonly LONGEST_WORD: Tensor<"BYTES">;
    }
  >;
  readonly vision_encoder: ModelHandle<
    {
      readonly pixel_values: TensorValue<"FP32">;
    },
    {
      readonly image_embeds: Tensor<"FP32">;
      readonly visual_tokens: Tensor<"FP32">;
    }
  >;
}

/** `S`: what a sequence keeps. */
export type Model<S = Record<string, unknown>> = BaseModel<Inputs, Outputs, S, Repository>;
