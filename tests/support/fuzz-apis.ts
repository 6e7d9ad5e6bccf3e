/**
 * Broken bodies for every route of the text APIs, through the route tables without a socket: each is answered below 500,
 * in the form of its protocol, with a body that ends.
 */
import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { gzipSync } from "node:zlib";
import { createChatFormat } from "../../server/src/chat/chat-format.ts";
import type { Logger } from "../../server/src/observe/log.ts";
import { createAnthropicApi } from "../../server/src/protocol/anthropic/anthropic-api.ts";
import { ApiChain } from "../../server/src/protocol/api/api-chain.ts";
import type { ApiReply } from "../../server/src/protocol/api/route.ts";
import type { HttpCall } from "../../server/src/protocol/http/http-call.ts";
import { errorReply } from "../../server/src/protocol/http/http-reply.ts";
import { createOllamaApi } from "../../server/src/protocol/ollama/ollama-api.ts";
import { createOpenAiApi } from "../../server/src/protocol/openai/openai-api.ts";
import { TextModels } from "../../server/src/text-model/text-models.ts";
import { FakeTextServer } from "../fakes/text-server.ts";
import { BODY_CASES, type BodyCase } from "./api-bodies.ts";
import { mutateJson } from "./mutate-json.ts";
import { mutateValue } from "./mutate-value.ts";
import type { Random } from "./random.ts";

const MAX_BODY_BYTES = 1024 * 1024;
const MIN_SERVER_STATUS = 500;
const MIN_ERROR_STATUS = 400;

export interface FuzzedBody {
  readonly path: string;
  readonly bytes: Buffer;
  readonly headers: Readonly<Record<string, string>>;
  /** Sent as it is in the table, where it is a body that its route takes. */
  readonly isWhole: boolean;
}

export interface FuzzCounts {
  readonly bodies: number;
  /** Bodies without a fault, all of which were answered with 200. */
  readonly whole: number;
  /** Answered with 200: those, and bodies whose fault changed nothing that matters. */
  readonly accepted: number;
  readonly slowestMs: number;
}

/** The APIs over models in memory; keeps the errors that they log. */
export class FuzzTarget {
  readonly errors: string[] = [];
  readonly #chain: ApiChain;
  readonly #server = new FakeTextServer();

  constructor() {
    const server = this.#server;
    const log: Logger = {
      info: () => undefined,
      warn: () => undefined,
      error: (_, message) => void this.errors.push(message),
      verbose: () => undefined,
      table: () => undefined,
    };
    const models = new TextModels(server, createChatFormat);
    const shared = { server, models, restricted: [], log };
    const apis = [
      createOpenAiApi({ ...shared, maxInputBytes: MAX_BODY_BYTES }),
      createAnthropicApi({ ...shared, maxBodyBytes: MAX_BODY_BYTES }),
      createOllamaApi({ ...shared, maxBodyBytes: MAX_BODY_BYTES }),
    ];
    this.#chain = new ApiChain(apis, { handle: async () => errorReply(404, "text/plain", "Not Found") });
  }

  /** @throws AssertionError */
  async answer(fuzzed: FuzzedBody): Promise<{ readonly status: number; readonly text: string }> {
    const reply = await this.#chain.handle(callOf(fuzzed));
    const text = await textOf(reply);
    const where = `${fuzzed.path}: ${reply.status} ${text.slice(0, 500)} for ${fuzzed.bytes.toString("latin1").slice(0, 4000)}`;
    assert.ok(reply.status < MIN_SERVER_STATUS, where);
    assert.deepEqual(this.errors, [], where);
    // An error within a stream has no status.
    assert.doesNotMatch(text, /"(?:server_error|api_error|internal)"|TypeError|RangeError|is not a function/, where);
    if (reply.status >= MIN_ERROR_STATUS) assert.equal(typeof JSON.parse(text).error, errorFormOf(fuzzed.path), where);
    return { status: reply.status, text };
  }
}

/** Ollama's errors are a text, all others an object. */
function errorFormOf(path: string): "string" | "object" {
  return path.startsWith("/api/") ? "string" : "object";
}

/** @throws AssertionError naming the first body that is answered otherwise */
export async function fuzzApis(target: FuzzTarget, random: Random, numBodies: number): Promise<FuzzCounts> {
  let [accepted, whole, slowestMs] = [0, 0, 0];
  for (let i = 0; i < numBodies; i++) {
    const fuzzed = fuzzedBody(random);
    const startMs = performance.now();
    const { status, text } = await target.answer(fuzzed);
    if (status < MIN_ERROR_STATUS) accepted += 1;
    if (fuzzed.isWhole) {
      whole += 1;
      assert.equal(status, 200, `${fuzzed.path}: ${text} for ${fuzzed.bytes}`);
    }
    slowestMs = Math.max(slowestMs, performance.now() - startMs);
  }
  assert.equal(Reflect.get({}, "polluted"), undefined);
  return { bodies: numBodies, whole, accepted, slowestMs: Math.round(slowestMs) };
}

export function fuzzedBody(random: Random): FuzzedBody {
  const base: BodyCase = random.pick(BODY_CASES);
  const body = { model: random.pick(base.models), ...base.body };
  const value = random.below(4) === 0 ? body : mutateValue(body, random);
  const text = duplicateKey(JSON.stringify(value) ?? "null", random);
  const bytes = random.below(4) === 0 ? mutateJson(text, random) : Buffer.from(text);
  const [changed, headers] = random.pick(TRANSFERS)(bytes, random);
  const isPlain = headers === JSON_HEADERS && changed.equals(Buffer.from(JSON.stringify(body)));
  return { path: base.path, bytes: changed, headers, isWhole: isPlain && base.isRefused !== true };
}

/** A member twice: the last one counts (RFC 8259, section 4, leaves it open). */
function duplicateKey(text: string, random: Random): string {
  if (random.below(10) !== 0 || !text.startsWith("{")) return text;
  return `{"model":1,"messages":[],"stream":[],${text.slice(1)}`;
}

type Transfer = (bytes: Buffer, random: Random) => readonly [Buffer, Readonly<Record<string, string>>];

const JSON_HEADERS = { "content-type": "application/json" };

/** Most are sent as clients do. */
const TRANSFERS: readonly Transfer[] = [
  ...Array.from({ length: 12 }, (): Transfer => (bytes) => [bytes, JSON_HEADERS]),
  (bytes) => [bytes, { "content-type": "text/plain; charset=utf-16" }],
  (bytes) => [bytes, { "content-type": "multipart/form-data" }],
  (bytes) => [bytes, { ...JSON_HEADERS, "content-encoding": "gzip" }],
  (bytes) => [gzipSync(bytes), { ...JSON_HEADERS, "content-encoding": "gzip" }],
  (bytes) => [gzipSync(bytes), JSON_HEADERS],
  (bytes, random) => [bytes.subarray(0, random.below(bytes.length)), JSON_HEADERS],
  (bytes) => [Buffer.concat([bytes, Buffer.from([0xe2, 0x82])]), JSON_HEADERS], // UTF-8 that breaks off
  (bytes) => [Buffer.from(bytes.toString("utf8"), "utf16le"), JSON_HEADERS],
];

function callOf({ path, bytes, headers }: FuzzedBody): HttpCall {
  return {
    method: "POST",
    path,
    query: "",
    rawHeaders: Object.entries(headers).flat(),
    arrivalMs: performance.now(),
    errorType: "application/json",
    trace: undefined,
    signal: new AbortController().signal,
    isCancelled: false,
    header: (name) => headers[name],
    body: async (maxBytes) => ({ bytes: bytes.subarray(0, maxBytes), size: bytes.length }),
    stream: () => Readable.from([bytes]),
    hold: () => undefined,
    giveBack: () => undefined,
  };
}

async function textOf(reply: ApiReply): Promise<string> {
  if ("body" in reply) return Buffer.concat(reply.body).toString("utf8");
  const pieces: Uint8Array[] = [];
  if ("pour" in reply.chunks) {
    await reply.chunks.pour((piece) => {
      pieces.push(piece);
      return undefined;
    });
  } else for await (const piece of reply.chunks) pieces.push(piece);
  return Buffer.concat(pieces).toString("utf8");
}
