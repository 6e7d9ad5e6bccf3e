/** A function of the model owner's that changes logits before any rule of the request does. Knows no module system. */

/**
 * Changes `logits`, [vocab], in place for the token that follows `tokens`, of which the first `promptLength` are the
 * prompt. Both arrays are valid during the call only. An exception fails that request alone.
 */
export type LogitsPostProcessor = (logits: Float32Array, tokens: Int32Array, promptLength: number) => void;

/** By the name that a request gives. The one named "*" serves requests that name none. */
export type LogitsPostProcessors = ReadonlyMap<string, LogitsPostProcessor>;

export const NO_POST_PROCESSORS: LogitsPostProcessors = new Map();
