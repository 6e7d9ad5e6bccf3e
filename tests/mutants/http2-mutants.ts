/** Protections of HTTP/2 connections (RFC 9113, 10.5): counts that a client controls, property P3. */
import type { Mutant } from "./mutant.ts";

const CONNECTION = "server/src/protocol/http2/connection.ts";
const GUARD = "server/src/protocol/http2/flood-guard.ts";
const TESTS = ["flood-guard", "half-frame-watch", "connection-floods", "connection"].map(
  (name) => `server/src/protocol/http2/${name}.test.ts`,
);

function mutant(name: string, file: string, from: string, to: string): Mutant {
  return { property: "P3", name, file, from, to, tests: TESTS };
}

export const HTTP2_MUTANTS: readonly Mutant[] = [
  mutant("rapid resets are not counted", GUARD, "return this.#resets > MAX_RESET_BURST;", "return false;"),
  mutant("empty frames are not counted", GUARD, "return this.#empty > MAX_EMPTY_FRAMES;", "return false;"),
  mutant(
    "settings and pings are not counted",
    GUARD,
    "return this.#controls > MAX_CONTROL_PER_SECOND;",
    "return false;",
  ),
  mutant("answers that nobody reads are queued", CONNECTION, "this.#writer.unsentBytes > MAX_UNREAD_BYTES", "false"),
  mutant(
    "streams of a client that does not read",
    CONNECTION,
    "this.#expectReader();\n    if (!this.#goAway",
    "if (!this.#goAway",
  ),
  mutant(
    "acks for a client that does not read",
    CONNECTION,
    "this.#expectReader();\n    this.#writer.frame",
    "this.#writer.frame",
  ),
  mutant(
    "streams that this side must reset are not counted",
    CONNECTION,
    'if (this.#guard.reset(performance.now())) throw enhanceYourCalmFault("too many streams must be reset");',
    "",
  ),
  mutant("padding counts as content", CONNECTION, "if (length > padding) this", "if (length > 0) this"),
  mutant("the end of a request counts as a flood", CONNECTION, "!ends && this.#guard.empty()", "this.#guard.empty()"),
  mutant(
    "windows that grow byte by byte",
    CONNECTION,
    'if (this.#guard.window(increment)) throw enhanceYourCalmFault("windows grow by too little");',
    "",
  ),
  mutant(
    "frames that never end",
    "server/src/protocol/http2/half-frame-watch.ts",
    "if (isHalf && numFrames === this.#numFrames) this.#onStuck();",
    "if (isHalf && numFrames < 0) this.#onStuck();",
  ),
  mutant("any number of streams", CONNECTION, "this.#streams.size >= this.#limits.maxStreams", "false"),
  mutant("header lists of any size", CONNECTION, "listBytes > this.#limits.maxHeaderListBytes", "false"),
  mutant(
    "the window of the connection is not kept",
    "server/src/protocol/http2/receive-side.ts",
    'if (this.#window < 0) throw new Http2Fault(HTTP2_ERROR.flowControl, "more data than the connection\'s window");',
    "",
  ),
  mutant(
    "the window of a stream is not kept",
    "server/src/protocol/http2/receive-side.ts",
    "if (stream.receiveWindow < 0) this.#streams.reset(stream, HTTP2_ERROR.flowControl);\n    else if",
    "if",
  ),
  mutant(
    "field blocks of any size",
    "server/src/protocol/http2/header-blocks.ts",
    'expectAtMost(this.#numBytes, MAX_BLOCK_BYTES, "bytes");',
    "",
  ),
  mutant(
    "field blocks of any number of frames",
    "server/src/protocol/http2/header-blocks.ts",
    'expectAtMost(this.#parts.length, MAX_BLOCK_FRAMES, "frames");',
    "",
  ),
  mutant(
    "a dynamic table of any size",
    "server/src/protocol/http2/header-decoder.ts",
    "if (bytes > MAX_TABLE_BYTES) throw",
    "if (bytes < 0) throw",
  ),
  mutant(
    "a body longer than its Content-Length",
    "server/src/protocol/http2/receive-side.ts",
    "contentLength !== undefined && stream.receivedBytes > contentLength",
    "false",
  ),
];
