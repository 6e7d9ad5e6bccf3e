/** Every number that a request controls has its cap here, with the reason. Tests stand on both sides of each. */

/** JSON nesting, enforced while parsing: deeper documents serve no tensor and overflow recursive readers. */
export const MAX_JSON_DEPTH = 100;
/** Members and elements of one JSON document beside tensor data: requests have a handful; millions of objects fill the heap. */
export const MAX_JSON_KEYS = 65_536;
/** An id, a name or the value of a parameter in the JSON of a request: the text of tensors does not count. */
export const MAX_JSON_STRING_BYTES: number = 1024 * 1024;
/** Non-empty chunks of one chunked HTTP body. */
export const MAX_HTTP_CHUNKS = 65_536;
/** Default of `--http-max-input-size`. */
export const DEFAULT_HTTP_MAX_INPUT_BYTES: number = 64 * 1024 * 1024;
/** An HTTP body with binary tensors: `--http-max-input-size` bounds only its JSON. As a gRPC message. */
export const MAX_HTTP_BINARY_BODY_BYTES: number = 2 ** 31 - 1;

/** Elements of an output that is turned into classes. */
export const MAX_CLASSIFICATION_ELEMENTS = 1_000_000;
/** Characters of a string correlation id. */
export const MAX_CORRELATION_ID_LENGTH = 128;
/** A gRPC message, as upstream: INT32_MAX. */
export const MAX_GRPC_MESSAGE_BYTES: number = 2 ** 31 - 1;
/** Open streams of one HTTP/2 connection: some bound there must be (CVE-2023-44487); one channel may serve many users. */
export const MAX_GRPC_CONCURRENT_STREAMS = 1024;
/** Stop or bad words of one LLM request: each is compared after every token. */
export const MAX_LLM_WORDS = 4096;
/** Token ids of all stop or all bad words of one LLM request. */
export const MAX_LLM_WORD_TOKENS = 65_536;
/** Beams of one LLM request: each step ranks that many squared, times the end ids. */
export const MAX_LLM_BEAMS = 64;
/** Alternatives told for each token of one LLM request. */
export const MAX_LLM_TOP_LOG_PROBS = 100;
/** Logits that one LLM request may ask back: they are held until they are sent. */
export const MAX_LLM_LOGITS_BYTES: number = 256 * 1024 * 1024;
/** Logits that all requests in one engine may ask back together. */
export const MAX_ENGINE_LOGITS_BYTES: number = 512 * 1024 * 1024;
/** Tokens that an LLM guesses ahead in one step: each costs a row. */
export const MAX_LLM_DRAFT_TOKENS = 64;
/** Sequences that one row of an LLM request may ask for. */
export const MAX_LLM_RETURN_SEQUENCES = 256;
/** Ranges of the prompt of one LLM request whose cache blocks are kept in their own way: each block looks through them. */
export const MAX_LLM_RETENTION_RANGES = 1024;
/** Cache salt of one LLM request: it is hashed whenever its prompt is looked up. */
export const MAX_LLM_SALT_CHARS = 1024;
/** Schema, expression or grammar of one LLM request. */
export const MAX_LLM_GUIDE_CHARS: number = 128 * 1024;
/** Text of one prompt to tokenise, about a million tokens: merging takes 44 bytes of memory per byte of an unbroken word. */
export const MAX_PROMPT_BYTES: number = 4 * 1024 * 1024;
/** Text of all stop or all bad words of one LLM request, tokenised without a pause. */
export const MAX_LLM_WORD_BYTES: number = 256 * 1024;
/** Text for a tokenizer of a kind that encodes in one go, at 1.5 MB/s: longer ones would hold the event loop. */
export const MAX_UNPAUSED_TEXT_CHARS: number = 64 * 1024;
/** Request metadata of one call, as upstream's hard limit. */
export const MAX_GRPC_HEADER_LIST_BYTES: number = 16 * 1024;
/** Regions of shared memory registered at once: each holds a descriptor and a mapping, of which a process has few. */
export const MAX_SHARED_MEMORY_REGIONS = 4096;
/** One region of shared memory: what a typed array can span on every Node that is supported. */
export const MAX_SHARED_MEMORY_REGION_BYTES: number = 2 ** 32;
/** Pictures of one request: each becomes some megabytes of numbers. */
export const MAX_IMAGES = 128;
/** One picture as a file, however it comes. */
export const MAX_IMAGE_BYTES: number = 32 * 1024 * 1024;
/** Default for pixels of one picture, which are three bytes each once decoded. Files of a few kilobytes claim billions. */
export const DEFAULT_MAX_IMAGE_PIXELS: number = 32 * 1024 * 1024;
/** What all pictures of one request may become. */
export const MAX_PIXEL_VALUES_BYTES: number = 512 * 1024 * 1024;
/** Address of a picture that the server is to fetch. */
export const MAX_IMAGE_URL_CHARS = 2048;
/** Patches that the pictures of a request become: an eye takes memory with the square of those that see each other. */
export const DEFAULT_MAX_PATCHES = 16_384;
/** Hits that one vector of a look-up may ask for. */
export const MAX_RETRIEVAL_HITS = 1000;
/** Vectors of one look-up: each looks through a collection. */
export const MAX_RETRIEVAL_VECTORS = 1024;
/** Text of the filter of one look-up. */
export const MAX_RETRIEVAL_FILTER_CHARS: number = 16 * 1024;
