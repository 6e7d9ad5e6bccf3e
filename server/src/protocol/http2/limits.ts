/**
 * Every number of HTTP/2 that a client controls (RFC 9113, 10.5; RFC 7541, 7.3). Streams and header lists of gRPC are in
 * `core/limits.ts`. `tests/limits` runs each at its limit and one past it.
 */

/** Bytes of one frame, SETTINGS_MAX_FRAME_SIZE: above the default, so that large messages come in few frames. */
export const MAX_FRAME_BYTES: number = 256 * 1024;
/** Bytes of one field block as sent; its fields have a limit of their own. */
export const MAX_BLOCK_BYTES = 65_536;
/** Frames of one field block: CONTINUATION flood (CVE-2024-27316). */
export const MAX_BLOCK_FRAMES = 64;
/** Bytes of the dynamic table: the default of RFC 7541, which the settings of this side leave. */
export const MAX_TABLE_BYTES = 4096;
/** An integer of HPACK: no length or index comes near (RFC 7541, 7.4). */
export const MAX_HPACK_INTEGER: number = 2 ** 28;
/**
 * Streams that a client may reset at once, or make this side reset: rapid reset (CVE-2023-44487), MadeYouReset
 * (CVE-2025-8671). Users cancel, but not this fast.
 */
export const MAX_RESET_BURST = 2000;
/** Streams that a client may reset each second beside the burst. */
export const MAX_RESETS_PER_SECOND = 200;
/** Frames in a row that carry nothing. */
export const MAX_EMPTY_FRAMES = 1000;
/** Windows in a row that were used up and grow by less than 256 bytes: each costs a frame of data. */
export const MAX_SMALL_WINDOWS = 1000;
/** Settings and pings of a second: each is answered. */
export const MAX_CONTROL_PER_SECOND = 10_000;
/** Bytes of answers that a client has not read when it asks for another: an ack, a stream or its reset. Data waits earlier. */
export const MAX_UNREAD_BYTES: number = 4 * 1024 * 1024;
