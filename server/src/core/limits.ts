/** Every limit on request-controlled numbers, with its reason. Tests check both sides of each. */

/** JSON nesting, enforced while parsing: deeper documents serve no tensor and overflow recursive readers. */
export const MAX_JSON_DEPTH = 100;
/** Members and elements of one JSON document beside tensor data: requests have a handful; millions of objects fill the heap. */
export const MAX_JSON_KEYS = 65_536;
/** An id, a name or a parameter value in the JSON of a request; tensor text does not count. */
export const MAX_JSON_STRING_BYTES: number = 1024 * 1024;
/** Non-empty chunks of one chunked HTTP body. */
export const MAX_HTTP_CHUNKS = 65_536;
/** Default of `--http-max-input-size`. */
export const DEFAULT_HTTP_MAX_INPUT_BYTES: number = 64 * 1024 * 1024;
/** An HTTP body with binary tensors: `--http-max-input-size` bounds only its JSON. Same as a gRPC message. */
export const MAX_HTTP_BINARY_BODY_BYTES: number = 2 ** 31 - 1;

/** Elements of an output for the classification extension. */
export const MAX_CLASSIFICATION_ELEMENTS = 1_000_000;
/** Characters of a string correlation id. */
export const MAX_CORRELATION_ID_LENGTH = 128;
/** A gRPC message, as upstream: INT32_MAX. */
export const MAX_GRPC_MESSAGE_BYTES: number = 2 ** 31 - 1;
/** Open streams of one HTTP/2 connection: a limit is needed (CVE-2023-44487), but one channel may serve many users. */
export const MAX_GRPC_CONCURRENT_STREAMS = 1024;
/** Stop or bad words of one LLM request: each is compared after every token. */
export const MAX_LLM_WORDS = 4096;
/** Token ids of all stop or all bad words of one LLM request. */
export const MAX_LLM_WORD_TOKENS = 65_536;
/** Beams of one LLM request: each step ranks that many squared, times the end ids. */
export const MAX_LLM_BEAMS = 64;
/** Top log probabilities per token of one LLM request. */
export const MAX_LLM_TOP_LOG_PROBS = 100;
/** Logits that one LLM request may return: they are held until they are sent. */
export const MAX_LLM_LOGITS_BYTES: number = 256 * 1024 * 1024;
/** Logits that all requests in one engine may return together. */
export const MAX_ENGINE_LOGITS_BYTES: number = 512 * 1024 * 1024;
/** Draft tokens of one speculative decoding step: each costs a row. */
export const MAX_LLM_DRAFT_TOKENS = 64;
/** Sequences that one row of an LLM request may return. */
export const MAX_LLM_RETURN_SEQUENCES = 256;
/** Retention ranges of one LLM request's prompt: each cache block checks them all. */
export const MAX_LLM_RETENTION_RANGES = 1024;
/** Cache salt of one LLM request: it is hashed for every prompt lookup. */
export const MAX_LLM_SALT_CHARS = 1024;
/** Schema, expression or grammar of one LLM request. */
export const MAX_LLM_GUIDE_CHARS: number = 128 * 1024;
/**
 * Text of one prompt to tokenize, about a million tokens: merging takes 44 bytes of memory per byte of an unbroken
 * word.
 */
export const MAX_PROMPT_BYTES: number = 4 * 1024 * 1024;
/** Text of all stop or all bad words of one LLM request, tokenized without yielding. */
export const MAX_LLM_WORD_BYTES: number = 256 * 1024;
/** Text for a tokenizer that encodes without yielding, at 1.5 MB/s: longer ones would block the event loop. */
export const MAX_UNPAUSED_TEXT_CHARS: number = 64 * 1024;
/** Request metadata of one call, like gRPC's hard limit. */
export const MAX_GRPC_HEADER_LIST_BYTES: number = 16 * 1024;
/** Regions of shared memory registered at once: each holds a descriptor and a mapping, of which a process has few. */
export const MAX_SHARED_MEMORY_REGIONS = 4096;
/** One region of shared memory: what a typed array can span on every Node that is supported. */
export const MAX_SHARED_MEMORY_REGION_BYTES: number = 2 ** 32;
/** Images of one request: each becomes some megabytes of values. */
export const MAX_IMAGES = 128;
/** Bytes of one image file, from any source. */
export const MAX_IMAGE_BYTES: number = 32 * 1024 * 1024;
/** Default limit of pixels of one image, three bytes each when decoded. Files of a few kilobytes may claim billions. */
export const DEFAULT_MAX_IMAGE_PIXELS: number = 32 * 1024 * 1024;
/** Total bytes of pixel values of one request. */
export const MAX_PIXEL_VALUES_BYTES: number = 512 * 1024 * 1024;
/** Characters of an image URL that the server is to fetch. */
export const MAX_IMAGE_URL_CHARS = 2048;
/**
 * Patches of a request's images: a vision encoder's memory grows with the square of the patches that attend to each
 * other.
 */
export const DEFAULT_MAX_PATCHES = 16_384;
/** Hits per query vector of a retrieval request. */
export const MAX_RETRIEVAL_HITS = 1000;
/** Query vectors of one retrieval request: each searches a collection. */
export const MAX_RETRIEVAL_VECTORS = 1024;
/** Characters of the filter of one retrieval request. */
export const MAX_RETRIEVAL_FILTER_CHARS: number = 16 * 1024;
/** Steps of one rendering of a chat template: a node, a turn of a loop, or 32 characters. Held for about a fifth of a second. */
export const MAX_TEMPLATE_STEPS = 2_000_000;
/** Characters of a prompt that a chat template makes, and of each text on the way. */
export const MAX_RENDERED_CHARS: number = 8 * 1024 * 1024;
/** Macros of a chat template that are open within each other. */
export const MAX_TEMPLATE_DEPTH = 64;
