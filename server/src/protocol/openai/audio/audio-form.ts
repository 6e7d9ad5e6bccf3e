/** The form of OpenAI's routes for sound. Source: OpenAI's API reference, "Create transcription", "Create translation". */
import { MAX_AUDIO_BYTES } from "../../../core/limits.ts";
import {
  ApiError,
  invalidParameter,
  invalidRequest,
  missingParameter,
  unsupportedParameter,
  unsupportedValue,
} from "../../api/api-error.ts";
import { boundaryOf, type FormPart, readForm } from "../../api/multipart.ts";
import { type JsonSchema, oneOf } from "../../api/schema.ts";
import type { HttpCall } from "../../http/http-call.ts";

export const AUDIO_FORMATS = ["json", "text", "srt", "verbose_json", "vtt"] as const;
export type AudioFormat = (typeof AUDIO_FORMATS)[number];

export interface AudioForm {
  readonly file: Uint8Array;
  readonly model: string;
  /** Code of ISO 639. */
  readonly language: string | undefined;
  readonly prompt: string;
  readonly format: AudioFormat;
  readonly temperature: number;
}

const FORMAT = oneOf(...AUDIO_FORMATS);
const MAX_FIELD_BYTES = 16_384;
const MAX_TEMPERATURE = 1;
const GRANULARITIES = ["timestamp_granularities[]", "timestamp_granularities"];
const FIELDS = ["model", "language", "prompt", "response_format", "temperature", "stream", ...GRANULARITIES];
const LANGUAGE = /^[a-z]{2,3}$/;

export const AUDIO_FORM: JsonSchema = {
  type: "object",
  properties: {
    file: { type: "string", contentMediaType: "audio/wav" },
    model: { type: "string" },
    language: { type: "string" },
    prompt: { type: "string" },
    response_format: FORMAT.json,
    temperature: { type: "number", minimum: 0, maximum: MAX_TEMPERATURE },
    "timestamp_granularities[]": { type: "string", enum: ["segment"] },
    stream: { type: "boolean" },
  },
  required: ["file", "model"],
};

/** @throws ApiError naming the field that is wrong @throws ClientGone */
export async function readAudioForm(call: Pick<HttpCall, "header" | "stream" | "hold">): Promise<AudioForm> {
  const boundary = boundaryOf(call.header("content-type") ?? "");
  if (boundary === undefined)
    throw invalidRequest(null, "invalid_content_type", "Expected a body of content type multipart/form-data.");
  const form: Parts = { fields: new Map(), file: undefined };
  for await (const part of readForm(call.stream(), boundary)) await readPart(form, part, call);
  if (form.file === undefined) throw missingParameter("file");
  return { file: form.file, ...readFields(form.fields) };
}

interface Parts {
  readonly fields: Map<string, string>;
  file: Uint8Array | undefined;
}

async function readPart(form: Parts, part: FormPart, call: Pick<HttpCall, "hold">): Promise<void> {
  if (part.name === "file") {
    if (form.file !== undefined) throw invalidParameter("file", "invalid_value", "Invalid 'file': expected one file.");
    form.file = await readBytes(part, MAX_AUDIO_BYTES, call);
    return;
  }
  if (!FIELDS.includes(part.name))
    throw unsupportedParameter(part.name, `Expected one of: file, ${FIELDS.join(", ")}.`);
  const text = (await readBytes(part, MAX_FIELD_BYTES, call)).toString("utf8");
  if (GRANULARITIES.includes(part.name)) expectSegments(part.name, text);
  else form.fields.set(part.name, text);
}

async function readBytes({ name, content }: FormPart, maxBytes: number, call: Pick<HttpCall, "hold">): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of content) {
    size += piece.length;
    if (size > maxBytes) throw tooLarge(name, maxBytes);
    call.hold(piece.length);
    pieces.push(Uint8Array.from(piece));
  }
  return Buffer.concat(pieces);
}

function tooLarge(name: string, maxBytes: number): ApiError {
  if (name !== "file") return invalidParameter(name, "string_above_max_length", `Invalid '${name}': too long.`);
  const message = `Maximum content size limit (${maxBytes}) exceeded: send the sound in parts.`;
  return new ApiError({ status: 413, type: "invalid_request_error", code: null, param: "file", message });
}

function expectSegments(name: string, value: string): void {
  if (value === "segment") return;
  throw unsupportedValue(name, `Expected "segment", got "${value}": times of words are not computed.`);
}

function readFields(fields: ReadonlyMap<string, string>): Omit<AudioForm, "file"> {
  const model = fields.get("model");
  if (model === undefined || model === "") throw missingParameter("model");
  const language = fields.get("language")?.toLowerCase();
  if (language !== undefined && language !== "" && !LANGUAGE.test(language))
    throw invalidParameter(
      "language",
      "invalid_value",
      `Invalid 'language': expected a code of ISO 639, such as "en".`,
    );
  const temperature = Number(fields.get("temperature") || 0);
  if (!(temperature >= 0 && temperature <= MAX_TEMPERATURE)) {
    const expected = `expected a number from 0 to ${MAX_TEMPERATURE}, got "${fields.get("temperature")}"`;
    throw invalidParameter("temperature", "invalid_value", `Invalid 'temperature': ${expected}.`);
  }
  return {
    model,
    language: language === "" ? undefined : language,
    prompt: fields.get("prompt") ?? "",
    format: FORMAT.read(fields.get("response_format") ?? "json", "response_format"),
    temperature,
  };
}
