/** Counts what became of the requests of one language model, and how long they took. The series are made elsewhere. */
import type { FinishReason, Usage } from "../../engine/request/generate.ts";
import type { GenerationObserver } from "../../engine/request/generation-observer.ts";
import { Histogram } from "../../observe/histogram.ts";

const TOKEN_COUNTS = [10, 50, 100, 500, 1000];
const FIRST_TOKEN_S = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
];
const NEXT_TOKEN_S = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
];
const REQUEST_S = [
  0.05, 0.1, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
];
const MS_PER_S = 1000;
const NS_PER_S = 1e9;

/** Ways for a request to end, as routers and dashboards name them. */
export type Ending = "stop" | "length" | "abort" | "error";

const ENDINGS: Readonly<Record<FinishReason, Ending>> = {
  end: "stop",
  stop: "stop",
  length: "length",
  cancelled: "abort",
};

export class RequestFigures implements GenerationObserver {
  readonly inputTokens: Histogram = new Histogram(TOKEN_COUNTS);
  readonly outputTokens: Histogram = new Histogram(TOKEN_COUNTS);
  readonly firstTokenS: Histogram = new Histogram(FIRST_TOKEN_S);
  readonly nextTokenS: Histogram = new Histogram(NEXT_TOKEN_S);
  readonly requestS: Histogram = new Histogram(REQUEST_S);
  readonly queueS: Histogram = new Histogram(REQUEST_S);
  readonly endings: Record<Ending, number> = { stop: 0, length: 0, abort: 0, error: 0 };
  promptTokens = 0;
  generatedTokens = 0;

  firstToken(sinceArrivalMs: number): void {
    this.firstTokenS.observe(sinceArrivalMs / MS_PER_S);
    this.generatedTokens += 1;
  }

  nextToken(sinceTokenMs: number): void {
    this.nextTokenS.observe(sinceTokenMs / MS_PER_S);
    this.generatedTokens += 1;
  }

  finished(reason: FinishReason, usage: Usage, sinceArrivalMs: number): void {
    this.endings[ENDINGS[reason]] += 1;
    this.inputTokens.observe(usage.promptTokens);
    this.outputTokens.observe(usage.outputTokens);
    this.promptTokens += usage.promptTokens;
    this.requestS.observe(sinceArrivalMs / MS_PER_S);
    if (usage.firstScheduledNs > 0) {
      this.queueS.observe(Math.max(0, usage.firstScheduledNs - usage.arrivalNs) / NS_PER_S);
    }
  }

  failed(): void {
    this.endings.error += 1;
  }
}
