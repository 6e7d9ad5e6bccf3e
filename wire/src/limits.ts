/**
 * Numbers of the protobuf codec that a message controls (protobuf encoding). `tests/limits` runs each at its limit and one
 * past it. The numbers of JSON come with the reader's `JsonLimits`.
 */

/** Entries of one repeated message field: requests have a handful, and each takes far more memory than its two bytes. */
export const MAX_REPEATED_MESSAGES = 65_536;
/** Dimensions of one tensor; no model has more than a dozen. */
export const MAX_DIMS = 4096;
/** Bytes of one tensor. One-byte varints become eight bytes, so the message size alone does not bound a tensor. */
export const MAX_TENSOR_BYTES: number = 2 ** 31 - 1;
/** Nested groups of unknown fields; the recursion limit of protobuf's C++ and Java parsers is 100 too. */
export const MAX_GROUP_DEPTH = 100;
