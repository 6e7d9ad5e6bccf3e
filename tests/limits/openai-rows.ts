/** Limits of bodies of the OpenAI protocol. */
import { array, boolean } from "../../server/src/protocol/api/schema.ts";
import { readAudioForm } from "../../server/src/protocol/openai/audio/audio-form.ts";
import { MESSAGES } from "../../server/src/protocol/openai/chat/messages.ts";
import { CHAT_REQUEST } from "../../server/src/protocol/openai/chat/request.ts";
import { prepareCompletion } from "../../server/src/protocol/openai/completion/prompts.ts";
import { COMPLETION_REQUEST } from "../../server/src/protocol/openai/completion/request.ts";
import { PROMPTS } from "../../server/src/protocol/openai/prompts.ts";
import type { BackgroundRun } from "../../server/src/protocol/openai/responses/store/background-run.ts";
import type { FinalObject } from "../../server/src/protocol/openai/responses/store/final-object.ts";
import { ResponseStore } from "../../server/src/protocol/openai/responses/store/response-store.ts";
import { StoredResponse } from "../../server/src/protocol/openai/responses/store/stored-response.ts";
import { DETOKENIZE_REQUEST } from "../../server/src/protocol/openai/tokenize.ts";
import type { TextModel } from "../../server/src/text-model/text-model.ts";
import type { LimitRow } from "./limit-row.ts";

const IMAGE = { type: "image_url", image_url: { url: "http://host/image.png" } };
const MODEL = { name: "m", tokenizer: undefined } as unknown as TextModel;
const times = <T>(count: number, value: T): readonly T[] => new Array<T>(count).fill(value);
const chat = (more: object): unknown =>
  CHAT_REQUEST.read({ model: "m", messages: [{ role: "user", content: "x" }], ...more }, "");
const row = (name: string, value: number, run: (count: number) => unknown): LimitRow => ({
  name,
  value,
  run,
  status: "400",
  says: "both",
});

/** Two prompts with `n` choices each, so that no other limit comes first. */
function complete(numChoices: number): void {
  const numPrompts = Math.ceil(numChoices / 128);
  const n = Math.ceil(numChoices / numPrompts);
  const body = COMPLETION_REQUEST.read({ model: "m", prompt: times(numPrompts, "x"), n }, "");
  prepareCompletion(MODEL, body);
}

const stored = (id: number, source: ConstructorParameters<typeof StoredResponse>[1]): StoredResponse =>
  new StoredResponse({ id: String(id), owner: "", input: [], previousId: undefined }, source);

const finalOf = (text: string): FinalObject => ({ text, numBytes: Buffer.byteLength(text), itemIds: [] });

function storedCount(count: number): number {
  const store = new ResponseStore();
  for (let id = 0; id < count; id++) store.add(stored(id, finalOf("{}")));
  return store.numResponses;
}

/** Two characters of empty input, one of the object. */
const LEAST_BYTES = 3;

/** Two responses: the older one, of the least length, is dropped as a whole. */
function storedBytes(count: number): number {
  const store = new ResponseStore();
  store.add(stored(1, finalOf("0")));
  store.add(stored(2, finalOf("x".repeat(count - LEAST_BYTES - 2))));
  return store.numBytes;
}

/** Runs that never begin, and so never end. */
function runAtOnce(count: number): void {
  const store = new ResponseStore();
  const run = { isOver: false, numBytes: 0 } as unknown as BackgroundRun;
  for (let id = 0; id < count; id++) store.add(stored(id, run));
}

/** A form whose file has so many bytes. */
async function sendSound(count: number): Promise<void> {
  const opening =
    '--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n--b\r\nContent-Disposition: form-data; name="file"; ';
  const pieces = [Buffer.from(`${opening}filename="a.wav"\r\n\r\n`), Buffer.alloc(count), Buffer.from("\r\n--b--\r\n")];
  await readAudioForm({
    header: () => "multipart/form-data; boundary=b",
    async *stream() {
      yield* pieces;
    },
    hold: () => undefined,
  });
}

export const OPENAI_ROWS: readonly LimitRow[] = [
  row("MAX_CHOICES", 128, (n) => chat({ n })),
  row("MAX_STOPS", 64, (count) => chat({ stop: times(count, "x") })),
  row("MAX_STOPS", 64, (count) => chat({ stop_token_ids: times(count, 1) })),
  row("MAX_STOPS", 64, (count) => chat({ bad_words: times(count, "x") })),
  row("MAX_TOKEN_ID", 16_777_216, (id) => chat({ stop_token_ids: [id] })),
  row("MAX_TOKEN_ID", 16_777_216, (id) => DETOKENIZE_REQUEST.read({ model: "m", tokens: [id] }, "")),
  row("MAX_LLM_SALT_CHARS", 1024, (count) => chat({ cache_salt: "a".repeat(count) })),
  row("MAX_PROMPTS", 2048, (count) => PROMPTS.read(times(count, "x"), "prompt")),
  row("MAX_PROMPTS", 2048, (count) => PROMPTS.read(times(count, [1]), "prompt")),
  row("MAX_PROMPT_TOKENS", 1_048_576, (count) => PROMPTS.read(times(count, 1), "prompt")),
  { ...row("MAX_COMPLETION_CHOICES", 2048, complete), says: "limit" },
  row("MAX_MESSAGES", 65_536, (count) => MESSAGES.read(times(count, { role: "user", content: "x" }), "messages")),
  row("MAX_ARRAY_ITEMS", 1_000_000, (count) => array(boolean()).read(times(count, true), "list")),
  { ...row("MAX_STORED_RESPONSES", 10_000, storedCount), status: "left out", says: /^$/ },
  { ...row("MAX_STORED_RESPONSE_BYTES", 134_217_728, storedBytes), status: "left out", says: /^$/, step: LEAST_BYTES },
  { ...row("MAX_BACKGROUND_RESPONSES", 1024, runAtOnce), status: "429", says: "limit" },
  { ...row("MAX_AUDIO_BYTES", 26_214_400, sendSound), status: "413", says: "limit" },
  row("MAX_IMAGES", 128, (count) => MESSAGES.read([{ role: "user", content: times(count, IMAGE) }], "messages")),
];
