/** A transcript in the formats of OpenAI's routes. Pure. Sources: OpenAI's API reference; SubRip; WebVTT (W3C). */
import { deflateSync } from "node:zlib";
import type { Segment, Transcript } from "../../../text-model/speech/transcribe.ts";

type Cue = Pick<Segment, "startSeconds" | "endSeconds" | "text">;

export function srtOf(segments: readonly Cue[]): string {
  return segments.map((cue, i) => `${i + 1}\n${timesOf(cue, ",")}\n${lineOf(cue)}\n`).join("\n");
}

export function vttOf(segments: readonly Cue[]): string {
  return ["WEBVTT\n", ...segments.map((cue) => `${timesOf(cue, ".")}\n${lineOf(cue)}\n`)].join("\n");
}

/** An arrow inside a line would end the cue. */
function lineOf({ text }: Cue): string {
  return text.trim().replaceAll("-->", "->");
}

function timesOf({ startSeconds, endSeconds }: Cue, mark: string): string {
  return `${clockOf(startSeconds, mark)} --> ${clockOf(endSeconds, mark)}`;
}

function clockOf(seconds: number, mark: string): string {
  const ms = Math.round(seconds * 1000);
  const two = (value: number): string => String(Math.floor(value)).padStart(2, "0");
  const rest = String(ms % 1000).padStart(3, "0");
  return `${two(ms / 3_600_000)}:${two((ms / 60_000) % 60)}:${two((ms / 1000) % 60)}${mark}${rest}`;
}

export interface TranscriptFacts {
  readonly task: "transcribe" | "translate";
  readonly durationSeconds: number;
  readonly temperature: number;
}

export function verboseOf({ text, language, segments }: Transcript, facts: TranscriptFacts): unknown {
  return {
    task: facts.task,
    language: language === undefined ? "english" : nameOf(language),
    duration: facts.durationSeconds,
    text,
    segments: segments.map((segment, id) => ({
      id,
      seek: segment.seek,
      start: segment.startSeconds,
      end: segment.endSeconds,
      text: segment.text,
      tokens: segment.tokens,
      temperature: facts.temperature,
      ...(segment.meanLogProb === undefined ? {} : { avg_logprob: segment.meanLogProb }),
      compression_ratio: compressionOf(segment.text),
    })),
    usage: usageOf(facts),
  };
}

export function usageOf({ durationSeconds }: Pick<TranscriptFacts, "durationSeconds">): unknown {
  return { type: "duration", seconds: Math.ceil(durationSeconds) };
}

/** The language's English name, as OpenAI writes it. */
function nameOf(code: string): string {
  return (new Intl.DisplayNames(["en"], { type: "language" }).of(code) ?? code).toLowerCase();
}

/** Text that repeats itself compresses well. */
function compressionOf(text: string): number {
  const bytes = Buffer.from(text);
  return bytes.length / deflateSync(bytes).length;
}
