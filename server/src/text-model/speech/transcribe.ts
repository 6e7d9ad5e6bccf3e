/**
 * Sound of any length to text, a window of the model after the other; timestamps say where the next one begins. Source: Radford et al.
 * 2022 (Whisper), section 4.5; openai/whisper, transcribe.py.
 */
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import { LogMel } from "../../formats/audio/log-mel.ts";
import type { SpeechTokens } from "../../formats/hf/speech-config.ts";
import type { CallFacts } from "../text-request.ts";
import { splitSegments, type TokenSegment } from "./segments.ts";
import type { SpeechModel, WindowOutput } from "./speech-model.ts";

export interface TranscribeRequest {
  /** At the rate of the model's features. */
  readonly samples: Float32Array;
  readonly task: "transcribe" | "translate";
  /** Code of the language; undefined: as the first window sounds. */
  readonly language: string | undefined;
  /** Text that stands before; "" for none. */
  readonly prompt: string;
  readonly temperature: number;
  readonly wantsSegments: boolean;
}

export interface Segment {
  /** Frame at which its window begins. */
  readonly seek: number;
  readonly startSeconds: number;
  readonly endSeconds: number;
  readonly text: string;
  readonly tokens: readonly number[];
  /** Mean log-probability of the tokens of its window; undefined where the model gives none. */
  readonly meanLogProb: number | undefined;
}

export interface Transcript {
  readonly text: string;
  /** Undefined: the model knows one language, and does not say which. */
  readonly language: string | undefined;
  readonly segments: readonly Segment[];
}

/** Frames of a timestamp's step. */
const FRAMES_A_STEP = 2;
/** A window passes at least this part of itself: an output that stands still would be asked for again. */
const LEAST_ADVANCE = 1 / 30;

/** @throws ServerError when the model cannot do what is asked */
export async function transcribe(model: SpeechModel, request: TranscribeRequest, call: CallFacts): Promise<Transcript> {
  const { features, tokens } = model.facts;
  const { numFrames, numMels, hopLength } = features;
  const numSound = Math.max(1, Math.ceil(request.samples.length / hopLength));
  const isLong = numSound > numFrames;
  // A window that begins near the end is filled up with silence.
  const all = await new LogMel(features).features(request.samples, isLong ? numSound + numFrames : numFrames);
  const framesFrom = (frame: number): Float32Array => all.subarray(frame * numMels, (frame + numFrames) * numMels);
  const hasTimes = tokens.noTimestampsId !== undefined && (isLong || request.wantsSegments);
  const language = await languageOf(model, request, framesFrom(0), call);
  const start = startOf(tokens, request, { language, hasTimes });
  const segments: Segment[] = [];
  for (let seek = 0; seek < numSound; ) {
    if (call.isCancelled) throw new ServerError("cancelled", "request was cancelled by its client");
    const prompt = Int32Array.from([...(seek === 0 ? previousOf(model, request.prompt) : []), ...start]);
    const maxTokens = Math.max(1, features.maxTokens - prompt.length);
    const window = { frames: framesFrom(seek), prompt, maxTokens, temperature: request.temperature };
    const output = await model.decode(window, call);
    const length = Math.min(numFrames, numSound - seek);
    const found = hasTimes ? timed(output, tokens, length) : untimed(output, tokens, length);
    segments.push(...found.segments.map((one) => segmentOf(model, one, seek, output)));
    seek += Math.max(Math.ceil(numFrames * LEAST_ADVANCE), found.advance * FRAMES_A_STEP);
  }
  return {
    text: segments
      .map(({ text }) => text)
      .join("")
      .trim(),
    language,
    segments,
  };
}

interface Found {
  readonly segments: readonly TokenSegment[];
  readonly advance: number;
}

function timed({ tokens: output }: WindowOutput, { noTimestampsId = 0, endId }: SpeechTokens, length: number): Found {
  const own = output.filter((id) => id !== endId);
  return splitSegments(own, noTimestampsId + 1, Math.ceil(length / FRAMES_A_STEP));
}

/** A model may give timestamps all the same: they are no text. */
function untimed({ tokens: all }: WindowOutput, { noTimestampsId }: SpeechTokens, length: number): Found {
  const end = Math.ceil(length / FRAMES_A_STEP);
  const tokens = noTimestampsId === undefined ? all : all.filter((id) => id < noTimestampsId);
  return { segments: tokens.length === 0 ? [] : [{ start: 0, end, tokens }], advance: end };
}

function segmentOf(
  { facts: { tokenizer, features } }: SpeechModel,
  { start, end, tokens }: TokenSegment,
  seek: number,
  { logProbs }: WindowOutput,
): Segment {
  const seconds = (step: number): number =>
    Math.round(((seek + step * FRAMES_A_STEP) * features.hopLength * 100) / features.sampleRate) / 100;
  return {
    seek,
    startSeconds: seconds(start),
    endSeconds: seconds(end),
    text: tokenizer.decode(tokens, { skipSpecialTokens: true }),
    tokens: [...tokens],
    meanLogProb: logProbs.length === 0 ? undefined : logProbs.reduce((sum, one) => sum + one, 0) / logProbs.length,
  };
}

/** The language asked for, or the likeliest behind a bare start. */
async function languageOf(
  model: SpeechModel,
  { language }: TranscribeRequest,
  frames: Float32Array,
  call: CallFacts,
): Promise<string | undefined> {
  const { languages, startId } = model.facts.tokens;
  if (language !== undefined) {
    if (languages.has(language) || (languages.size === 0 && language === "en")) return language;
    const known = languages.size === 0 ? "en" : [...languages.keys()].join(", ");
    throw invalidArgument(`language '${language}' is none of the model's, expected one of: ${known}`);
  }
  if (languages.size === 0) return undefined;
  const { tokens } = await model.decode({ frames, prompt: Int32Array.of(startId), maxTokens: 1, temperature: 0 }, call);
  return [...languages].find(([, id]) => id === tokens[0])?.[0];
}

function startOf(
  { startId, languages, transcribeId, translateId, noTimestampsId }: SpeechTokens,
  { task }: TranscribeRequest,
  { language, hasTimes }: { readonly language: string | undefined; readonly hasTimes: boolean },
): readonly number[] {
  const taskId = task === "translate" ? translateId : transcribeId;
  if (taskId === undefined && task === "translate")
    throw invalidArgument(
      "the model does not translate: its generation_config.json has no task_to_id with 'translate'",
    );
  const languageId = language === undefined ? undefined : languages.get(language);
  const timesId = hasTimes ? undefined : noTimestampsId;
  return [startId, languageId, taskId, timesId].filter((id) => id !== undefined);
}

/** Text before the sound takes at most half of the tokens. */
function previousOf({ facts: { tokenizer, tokens, features } }: SpeechModel, text: string): readonly number[] {
  if (text.trim() === "") return [];
  const previousId = tokens.previousId ?? tokenizer.idOf("<|startofprev|>");
  if (previousId === undefined) throw invalidArgument("the model takes no prompt: it has no token '<|startofprev|>'");
  const ids = tokenizer.encode(` ${text.trim()}`, { addSpecialTokens: false });
  const most = Math.floor(features.maxTokens / 2) - 1;
  return [previousId, ...ids.subarray(Math.max(0, ids.length - most))];
}
