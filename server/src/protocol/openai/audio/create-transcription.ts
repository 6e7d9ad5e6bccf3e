/** POST /v1/audio/transcriptions and /v1/audio/translations. Source: OpenAI's API reference, "Audio". */
import { type ReadSound, readSound } from "../../../text-model/speech/read-sound.ts";
import type { SpeechModel } from "../../../text-model/speech/speech-model.ts";
import { type Transcript, transcribe } from "../../../text-model/speech/transcribe.ts";
import { invalidParameter, unsupportedParameter } from "../../api/api-error.ts";
import { type ApiReply, type ApiRoute, actionRoute, type RouteCall } from "../../api/route.ts";
import { bytesReply, jsonReply } from "../../http/http-reply.ts";
import { findSpeechModel, type OpenAiContext, startCall } from "../openai-context.ts";
import { openAiError } from "../openai-error.ts";
import { AUDIO_FORM, type AudioForm, readAudioForm } from "./audio-form.ts";
import { srtOf, type TranscriptFacts, usageOf, verboseOf, vttOf } from "./transcript-text.ts";

type Task = TranscriptFacts["task"];

export function audioRoutes(context: OpenAiContext): readonly ApiRoute[] {
  const route = (path: string, summary: string, task: Task): ApiRoute => ({
    ...actionRoute(path, "inference", summary, (call) => createTranscript(context, task, call)),
    form: AUDIO_FORM,
  });
  return [
    route("/v1/audio/transcriptions", "Sound to text", "transcribe"),
    route("/v1/audio/translations", "Sound to English text", "translate"),
  ];
}

/** @throws ApiError @throws ClientGone */
async function createTranscript(context: OpenAiContext, task: Task, route: RouteCall): Promise<ApiReply> {
  const form = await readAudioForm(route.call);
  if (task === "translate" && form.language !== undefined)
    throw unsupportedParameter("language", "A translation is into English; the language of the sound is heard.");
  const model = await findSpeechModel(context, form.model, route.access);
  const call = startCall(context, model.served.name, route);
  const sound = await soundOf(form, model);
  route.call.hold(sound.samples.byteLength);
  try {
    const wantsSegments = form.format !== "json" && form.format !== "text";
    const { language, prompt, temperature } = form;
    const asked = { samples: sound.samples, task, language, prompt, temperature, wantsSegments };
    const transcript = await transcribe(model, asked, call);
    return replyOf(transcript, form, { task, temperature, durationSeconds: sound.durationSeconds });
  } catch (error) {
    throw openAiError(error, "file");
  }
}

/** @throws ApiError for a file that cannot be read */
async function soundOf({ file }: AudioForm, { facts: { features } }: SpeechModel): Promise<ReadSound> {
  try {
    return await readSound(file, features.sampleRate);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw invalidParameter("file", "invalid_value", `Invalid file: ${reason}.`);
  }
}

function replyOf(transcript: Transcript, { format }: AudioForm, facts: TranscriptFacts): ApiReply {
  const text = (body: string): ApiReply => bytesReply("text/plain; charset=utf-8", [Buffer.from(body)]);
  switch (format) {
    case "json":
      return jsonReply({ text: transcript.text, usage: usageOf(facts) });
    case "verbose_json":
      return jsonReply(verboseOf(transcript, facts));
    case "text":
      return text(`${transcript.text}\n`);
    case "srt":
      return text(srtOf(transcript.segments));
    case "vtt":
      return text(vttOf(transcript.segments));
  }
}
