/**
 * A Whisper folder behind OpenAI's routes of the built server: WAV files become the tokens and texts that transformers generates of
 * the same sound (record_speech.py). Its window is a second, so longer sounds take several.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { createPipeline } from "../support/llm-pipeline.ts";
import { startServerProcess } from "../support/server-process.ts";
import { sound, wavOf } from "./whisper-sound.ts";

interface Case {
  readonly language: string;
  readonly task: "transcribe" | "translate";
  readonly times: boolean;
  readonly prompt: string | null;
  readonly ids: readonly number[];
  readonly text: string;
}

interface Verbose {
  readonly language: string;
  readonly duration: number;
  readonly text: string;
  readonly segments: readonly {
    readonly start: number;
    readonly end: number;
    readonly text: string;
    readonly tokens: readonly number[];
    readonly avg_logprob: number;
  }[];
}

const MODEL = fileURLToPath(new URL("speech", import.meta.url));
const { seconds, detected, cases } = JSON.parse(readFileSync(`${MODEL}/expected.json`, "utf8")) as {
  readonly seconds: number;
  readonly detected: string;
  readonly cases: readonly Case[];
};
const LANGUAGES: Readonly<Record<string, string>> = { "<|en|>": "english", "<|de|>": "german", "<|fr|>": "french" };
const FIRST_TIME = JSON.parse(readFileSync(`${MODEL}/generation_config.json`, "utf8")).no_timestamps_token_id + 1;

function formOf(file: Uint8Array, fields: Readonly<Record<string, string>>): FormData {
  const form = new FormData();
  form.set("file", new Blob([Uint8Array.from(file)]), "sound.wav");
  for (const [name, value] of Object.entries({ model: "tensorrt_llm", ...fields })) form.set(name, value);
  return form;
}

test("/v1/audio/transcriptions and /v1/audio/translations answer WAV files as transformers does", async (t) => {
  const more = { tensorrt_llm: `engine_dir:${MODEL},tokenizer_dir:${MODEL}` };
  // Halves would round the features.
  await using repository = await createPipeline(more, (text) => text.replaceAll("TYPE_FP16", "TYPE_FP32"));
  const only = ["--model-control-mode=explicit", "--load-model=tensorrt_llm"];
  const server = await startServerProcess({ repositories: [repository.path], flags: only });
  t.after(() => server.kill());
  const file = wavOf(sound(seconds));
  const ask = async (path: string, fields: Readonly<Record<string, string>>, body = file) => {
    const response = await fetch(`${server.baseUrl}/v1/audio/${path}`, { method: "POST", body: formOf(body, fields) });
    return { status: response.status, text: await response.text() };
  };
  const json = async <T>(path: string, fields: Readonly<Record<string, string>>, body = file): Promise<T> => {
    const answer = await ask(path, fields, body);
    assert.equal(answer.status, 200, answer.text);
    return JSON.parse(answer.text) as T;
  };

  await t.test("texts without times, with the language and the prompt of the request", async () => {
    const plain = cases.filter(({ times, task }) => !times && task === "transcribe");
    assert.equal(plain.length, 2);
    for (const { language, prompt, text } of plain) {
      const fields = { language, ...(prompt === null ? {} : { prompt }) };
      const answer = await json<{ readonly text: string; readonly usage: unknown }>("transcriptions", fields);
      assert.deepEqual(answer, { text: text.trim(), usage: { type: "duration", seconds: 1 } });
    }
    const [{ text = "" } = {}] = plain;
    const whole = await ask("transcriptions", { language: "en", response_format: "text" });
    assert.equal(whole.text, `${text.trim()}\n`);
  });

  await t.test("segments with the times of the recorded tokens", async () => {
    const timed = cases.find(({ times, task }) => times && task === "transcribe");
    const ids = timed?.ids ?? [];
    const fields = { language: "en", response_format: "verbose_json", "timestamp_granularities[]": "segment" };
    const answer = await json<Verbose>("transcriptions", fields);
    const texts = ids.filter((id) => id < FIRST_TIME);
    assert.ok(texts.length > 0);
    const found = answer.segments.flatMap(({ tokens }) => tokens);
    // The next window hears again all that begins behind the last pair of timestamps.
    assert.deepEqual(found.slice(0, texts.length), texts);
    assert.deepEqual(
      [answer.language, answer.duration, answer.segments[0]?.start],
      ["english", seconds, ((ids[0] ?? 0) - FIRST_TIME) * 0.02],
    );
    assert.ok(answer.segments.every(({ start, end, avg_logprob: score }) => start <= end && score < 0));
    const srt = await ask("transcriptions", { language: "en", response_format: "srt" });
    assert.match(srt.text, /^1\n00:00:00,\d{3} --> 00:0\d:\d\d,\d{3}\n/);
    const vtt = await ask("transcriptions", { language: "en", response_format: "vtt" });
    assert.match(vtt.text, /^WEBVTT\n\n00:00:00\.\d{3} --> /);
  });

  await t.test("the language is heard where the request names none", async () => {
    const answer = await json<Verbose>("transcriptions", { response_format: "verbose_json" });
    assert.equal(answer.language, LANGUAGES[detected]);
  });

  await t.test("longer sounds at another rate take several windows, and translations one task", async () => {
    const long = Float32Array.from({ length: 30_000 }, (_, i) => 0.4 * Math.sin((2 * Math.PI * 500 * i) / 12_000));
    const fields = { response_format: "verbose_json" };
    const answer = await json<Verbose>("translations", fields, wavOf(long, 12_000));
    assert.equal(answer.duration, 2.5);
    assert.ok((answer.segments.at(-1)?.end ?? 0) > 1, "it goes on behind the first window");
    const starts = answer.segments.map(({ start }) => start);
    assert.deepEqual(
      starts,
      [...starts].sort((a, b) => a - b),
    );
  });

  await t.test("what cannot be read or done is refused by its field", async () => {
    const refusals: readonly (readonly [string, Readonly<Record<string, string>>, Uint8Array, RegExp])[] = [
      ["transcriptions", {}, Buffer.from("OggS...."), /Invalid file: expected a WAV file .* got Ogg: convert it first/],
      [
        "transcriptions",
        { language: "xx" },
        file,
        /language 'xx' is none of the model's, expected one of: de, en, fr|en, de, fr/,
      ],
      ["transcriptions", { language: "English!" }, file, /Invalid 'language': expected a code of ISO 639/],
      ["transcriptions", { response_format: "xml" }, file, /response_format/],
      ["transcriptions", { temperature: "2" }, file, /Invalid 'temperature': expected a number from 0 to 1/],
      ["transcriptions", { "timestamp_granularities[]": "word" }, file, /times of words are not computed/],
      ["transcriptions", { chunking: "auto" }, file, /Unsupported parameter: 'chunking'/],
      ["translations", { language: "de" }, file, /Unsupported parameter: 'language'/],
      ["transcriptions", { model: "none" }, file, /The model `none` does not exist/],
    ];
    for (const [path, fields, body, expected] of refusals) {
      const { status, text } = await ask(path, fields, body);
      assert.match(text, expected);
      assert.ok(status === 400 || status === 404, `${status}`);
    }
    const empty = await fetch(`${server.baseUrl}/v1/audio/transcriptions`, { method: "POST", body: new FormData() });
    assert.equal(empty.status, 400);
  });
});
