/**
 * Every number that a request controls, with unit, field and reason. `tests/limits` runs the decoder of each at its limit
 * and one past it. Numbers of HTTP/2 frames are in `protocol/http2/limits.ts`, those of protobuf in `wire/src/limits.ts`.
 * Source: own design, except where a line names another.
 */

// HTTP

/** Bytes of a request's target and headers (431 past it). Node's own default, so proxies in front are sized for it. */
export const MAX_HTTP_HEADER_BYTES: number = 16 * 1024;
/** Non-empty chunks below 1 KiB of one chunked body: each is an object until the body is whole. */
export const MAX_HTTP_CHUNKS = 65_536;
/** Bytes of a JSON body, default of `--http-max-input-size`: Triton's default. */
export const DEFAULT_HTTP_MAX_INPUT_BYTES: number = 64 * 1024 * 1024;
/** Bytes of a body with binary tensors, whose JSON alone `--http-max-input-size` bounds. Same as a gRPC message. */
export const MAX_HTTP_BINARY_BODY_BYTES: number = 2 ** 31 - 1;
/** Open arrays and objects of any JSON body: deeper documents serve no tensor and overflow recursive readers. */
export const MAX_JSON_DEPTH = 100;
/** Members and elements of one JSON document beside tensor data: requests have a handful; millions fill the heap. */
export const MAX_JSON_KEYS = 65_536;
/** Bytes of an id, a name or a parameter value in the JSON of a request; tensor text does not count. */
export const MAX_JSON_STRING_BYTES: number = 1024 * 1024;

// gRPC

/** Bytes of a message, either way: INT32_MAX, as upstream. */
export const MAX_GRPC_MESSAGE_BYTES: number = 2 ** 31 - 1;
/** Open streams of one connection: a limit is needed (CVE-2023-44487), but one channel may serve many users. */
export const MAX_GRPC_CONCURRENT_STREAMS = 1024;
/** Bytes of the metadata of one call, 32 more for each field (RFC 9113, 6.5.2): gRPC's hard limit. */
export const MAX_GRPC_HEADER_LIST_BYTES: number = 16 * 1024;

// Connections

/** Open connections of all listeners together; three quarters of the process's descriptors, where these are fewer. */
export const MAX_CONNECTIONS = 65_536;
/** Connections of one peer without a whole request so far: half-open, silent, half-sent. The oldest go. */
export const MAX_PEER_WAITING_CONNECTIONS = 1024;

// Any inference request

/** Elements of an output for `classification`: they are sorted without a pause. */
export const MAX_CLASSIFICATION_ELEMENTS = 1_000_000;
/** Characters of a string in `sequence_id`: STRING_CORRELATION_ID_MAX_LENGTH_BYTES of Triton. */
export const MAX_CORRELATION_ID_BYTES = 128;
/** Regions of shared memory registered at once: each holds a descriptor and a mapping, of which a process has few. */
export const MAX_SHARED_MEMORY_REGIONS = 4096;
/** Bytes of one region (`byte_size`): the length of a typed array on every Node that is supported. */
export const MAX_SHARED_MEMORY_REGION_BYTES: number = 2 ** 32;

/** Parts of the path of a file that a load request brings: a model has a handful, and folders are walked without a pause. */
export const MAX_OVERRIDE_DEPTH = 32;
/** Characters of a model version: more are out of range in every case, and costly to convert. */
export const MAX_VERSION_DIGITS = 64;

// Traces of sampled requests: beyond these the rest is left out, and the request goes on

/** Elements of one tensor in a trace: the text of an image is ten times its bytes, held until it is written. */
export const MAX_TRACED_ELEMENTS = 65_536;
/** Events of one trace: a stream has two for each response, without a bound. */
export const MAX_TRACE_MOMENTS = 16_384;
/** Traces of one tree: a model may call others for as long as its request runs. */
export const MAX_TREE_TRACES = 4096;
/** Characters of `tracestate`: the least that W3C Trace Context 3.3.1.5 requires to propagate. */
export const MAX_TRACE_STATE_CHARS = 512;

// Language models

/** Words in `stop_words_list` or `bad_words_list`: each is compared after every token. */
export const MAX_LLM_WORDS = 4096;
/** Token ids of all stop or all bad words. */
export const MAX_LLM_WORD_TOKENS = 65_536;
/** Bytes of all stop or all bad words as text, tokenized without a pause. */
export const MAX_LLM_WORD_BYTES: number = 256 * 1024;
/** `beam_width`: each step ranks that many squared, times the end ids. */
export const MAX_LLM_BEAMS = 64;
/** `num_top_log_probs`: log probabilities of one token, held until they are sent. */
export const MAX_LLM_TOP_LOG_PROBS = 100;
/** Bytes of logits that one request may return (`return_context_logits`): they are held until they are sent. */
export const MAX_LLM_LOGITS_BYTES: number = 256 * 1024 * 1024;
/** Bytes of logits that all requests in one engine may return together. */
export const MAX_ENGINE_LOGITS_BYTES: number = 512 * 1024 * 1024;
/** `num_draft_tokens`, draft tokens of one speculative decoding step: each costs a row. */
export const MAX_LLM_DRAFT_TOKENS = 64;
/** `num_return_sequences`: each is a generation of its own. */
export const MAX_LLM_RETURN_SEQUENCES = 256;
/** Ranges in `retention_token_range_starts`: each cache block checks them all. */
export const MAX_LLM_RETENTION_RANGES = 1024;
/** `retention_token_range_priorities`, percent: the scale of TensorRT-LLM's KvCacheRetentionConfig. */
export const MAX_LLM_RETENTION_PRIORITY = 100;
/** Characters of `cache_salt`: it is hashed for every prompt lookup. */
export const MAX_LLM_SALT_CHARS = 1024;
/** Characters of `guided_decoding_guide`: a schema, an expression or a grammar. */
export const MAX_LLM_GUIDE_CHARS: number = 128 * 1024;
/** Bytes of one prompt's text, about a million tokens: merging takes 44 bytes of memory for each byte of an unbroken word. */
export const MAX_PROMPT_BYTES: number = 4 * 1024 * 1024;
/** Bytes of one file of sound: OpenAI's limit, 13 minutes of 16 bits at 16 kHz. */
export const MAX_AUDIO_BYTES: number = 25 * 1024 * 1024;
/** Characters for a tokenizer that encodes without a pause, at 1.5 MB/s: longer ones would block the event loop. */
export const MAX_UNPAUSED_TEXT_CHARS: number = 64 * 1024;

// OpenAI's API

/** `n` of a chat, and of one prompt of a completion: OpenAI's limit. */
export const MAX_CHOICES = 128;
/** Choices of all prompts of one completion: each is a request to the model. */
export const MAX_COMPLETION_CHOICES = 2048;
/** Prompts, inputs or documents of one request: OpenAI's limit. */
export const MAX_PROMPTS = 2048;
/** Token ids of one prompt that comes as ids: no model has a longer context. */
export const MAX_PROMPT_TOKENS = 1_048_576;
/** A token id: 2^24, above every vocabulary. */
export const MAX_TOKEN_ID = 16_777_216;
/** `stop`, `stop_token_ids` or `bad_words`. OpenAI takes 4; clients of vLLM send more. */
export const MAX_STOPS = 64;
/** `messages`: as many as a JSON document may have members. */
export const MAX_MESSAGES = 65_536;
/** Elements of any other array of a body. */
export const MAX_ARRAY_ITEMS = 1_000_000;

/** Responses that are kept, of all keys: the oldest go. Agents keep one for each turn. */
export const MAX_STORED_RESPONSES = 10_000;
/** Bytes of all kept responses with their inputs and events: the oldest of the key that has the most go. */
export const MAX_STORED_RESPONSE_BYTES: number = 128 * 1024 * 1024;
/** Background responses that run at once: nobody waits for them, so nothing else bounds their number. */
export const MAX_BACKGROUND_RESPONSES = 1024;

// Model Context Protocol

/** Bytes of a message: tools are for small tensors, and the SDK's own default. */
export const MAX_MCP_BODY_BYTES: number = 4 * 1024 * 1024;
/** Elements of one input, and of all outputs of a call: a language model reads them as text. */
export const MAX_MCP_ELEMENTS = 16_384;
/** Bytes of all texts of a call's outputs. */
export const MAX_MCP_TEXT_BYTES: number = 1024 * 1024;

// Chat templates

/** Steps of one rendering: a node, a turn of a loop, or 32 characters. Held for about a fifth of a second. */
export const MAX_TEMPLATE_STEPS = 2_000_000;
/** Characters of a prompt that a chat template makes, and of each text on the way. */
export const MAX_RENDERED_CHARS: number = 8 * 1024 * 1024;
/** Macros of a chat template that are open within each other. */
export const MAX_TEMPLATE_DEPTH = 64;

// Images

/** Images of one request: each becomes some megabytes of values. */
export const MAX_IMAGES = 128;
/** Placeholders of images in one prompt. */
export const MAX_IMAGE_PLACES = 1024;
/** Bytes of one image file, from any source. */
export const MAX_IMAGE_BYTES: number = 32 * 1024 * 1024;
/** Bytes of an image as it is sent: base64 makes a file a third longer, line breaks a little more. */
export const MAX_IMAGE_SOURCE_BYTES: number = 48 * 1024 * 1024;
/** Characters of an image URL that the server is to fetch. */
export const MAX_IMAGE_URL_CHARS = 2048;
/** Requests that wait for fetched images, for each instance: each holds a connection. */
export const MAX_IMAGE_FETCHES = 64;
/** Pixels of one image, `max_pixels_per_image`: three bytes each when decoded. Small files may claim billions. */
export const DEFAULT_MAX_IMAGE_PIXELS: number = 32 * 1024 * 1024;
/** Bytes of all pixel values of one request. */
export const MAX_PIXEL_VALUES_BYTES: number = 512 * 1024 * 1024;
/** Patches of one request, `max_patches_per_request`: an encoder's memory grows with the square of those that attend. */
export const DEFAULT_MAX_PATCHES = 16_384;

// Retrieval

/** `k`, hits for each query vector. */
export const MAX_RETRIEVAL_HITS = 1000;
/** Query vectors of one request: each searches a collection. */
export const MAX_RETRIEVAL_VECTORS = 1024;
/** Characters of `filter`. */
export const MAX_RETRIEVAL_FILTER_CHARS: number = 16 * 1024;
/** Conditions of `filter`: each is a clause of the store's query. */
export const MAX_FILTER_CONDITIONS = 32;
/** Values of one `$in` of `filter`: each is a parameter of the store's query. */
export const MAX_FILTER_CHOICES = 1000;
/** Characters of a member's name in `filter`. */
export const MAX_FILTER_FIELD_CHARS = 128;
