/**
 * Queues spans and sends them in batches, one at a time. Sources: OpenTelemetry specification, "Batching processor" and
 * "OpenTelemetry Protocol Exporter", "Retry". Nothing waits for it; rejected spans are dropped and logged.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { backoffMs } from "../../../core/backoff.ts";
import { BoundedSignal } from "../../../core/bounded-signal.ts";
import type { Logger } from "../../log.ts";
import { OtlpGrpcSender } from "./otlp-grpc-sender.ts";
import { OtlpHttpSender } from "./otlp-http-sender.ts";
import type { OtlpExport } from "./otlp-message.ts";
import type { OtlpOutcome } from "./otlp-outcome.ts";
import type { OtlpSender } from "./otlp-sender.ts";
import type { OtlpSettings } from "./otlp-settings.ts";
import type { OtlpSpan } from "./otlp-spans.ts";

const LOG_LOCATION = "tracer";
const RETRY = { firstMs: 500, maxMs: 5000 };
/** Share of a delay that is random, so that servers do not return at once. */
const JITTER = 0.2;
/** Time limit at shutdown, for all remaining spans. */
const CLOSE_TIMEOUT_MS = 5000;

export interface OtlpExporterOptions {
  readonly settings: OtlpSettings;
  readonly log: Logger;
  /** That of the settings' protocol by default. */
  readonly sender?: OtlpSender;
  /** Waits between tries; resolves early at the signal. */
  readonly pause?: (ms: number, signal: AbortSignal) => Promise<void>;
}

/** @throws ServerError for an unreadable certificate */
function createSender(settings: OtlpSettings): OtlpSender {
  return settings.protocol === "grpc" ? new OtlpGrpcSender(settings) : new OtlpHttpSender(settings);
}

export class OtlpExporter {
  readonly #settings: OtlpSettings;
  readonly #log: Logger;
  readonly #sender: OtlpSender;
  readonly #pause: (ms: number, signal: AbortSignal) => Promise<void>;
  readonly #closing = new AbortController();
  #queue: OtlpSpan[] = [];
  #numDropped = 0;
  #timer: NodeJS.Timeout | undefined;
  #sending: Promise<void> | undefined;

  constructor({ settings, log, sender = createSender(settings), pause = sleepUntilAborted }: OtlpExporterOptions) {
    this.#settings = settings;
    this.#log = log;
    this.#sender = sender;
    this.#pause = pause;
  }

  add(spans: readonly OtlpSpan[]): void {
    const { maxQueueSize, maxExportBatchSize, scheduleDelayMs } = this.#settings;
    const room = maxQueueSize - this.#queue.length;
    this.#queue.push(...spans.slice(0, room));
    if (spans.length > room) this.#drop(spans.length - room);
    if (this.#queue.length >= maxExportBatchSize) this.#send();
    else this.#timer ??= setTimeout(() => this.#send(), scheduleDelayMs).unref();
  }

  /** Sends the remaining spans, within a few seconds. Never rejects. */
  async close(): Promise<void> {
    const cut = setTimeout(() => this.#closing.abort(), CLOSE_TIMEOUT_MS);
    do {
      this.#send();
      await this.#sending;
    } while (this.#queue.length > 0);
    clearTimeout(cut);
    clearTimeout(this.#timer);
    this.#sender.close();
  }

  #send(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#sending !== undefined || this.#queue.length === 0) return;
    const spans = this.#queue.splice(0, this.#settings.maxExportBatchSize);
    this.#sending = this.#deliver({ resource: this.#settings.resource, spans }).finally(() => {
      this.#sending = undefined;
      if (this.#queue.length >= this.#settings.maxExportBatchSize) this.#send();
      else if (this.#queue.length > 0)
        this.#timer ??= setTimeout(() => this.#send(), this.#settings.scheduleDelayMs).unref();
    });
  }

  /** One batch, with all its tries within the time limit. */
  async #deliver(batch: OtlpExport): Promise<void> {
    const { timeoutMs, url } = this.#settings;
    const bounded = new BoundedSignal(this.#closing.signal, timeoutMs);
    const outcome = await this.#tryUntilTaken(batch, bounded.signal, performance.now() + timeoutMs);
    bounded.clear();
    const count = batch.spans.length;
    if (outcome.kind !== "taken") this.#log.error(LOG_LOCATION, `${count} spans are lost: ${url} ${outcome.fault}`);
    else if (outcome.rejectedSpans > 0) {
      const { rejectedSpans, message } = outcome;
      this.#log.error(LOG_LOCATION, `${rejectedSpans} of ${count} spans are lost: ${url} rejected them: ${message}`);
    } else if (outcome.message !== "") this.#log.warn(LOG_LOCATION, `${url} warns: ${outcome.message}`);
  }

  async #tryUntilTaken(batch: OtlpExport, signal: AbortSignal, deadlineMs: number): Promise<OtlpOutcome> {
    for (let numTries = 1; ; numTries += 1) {
      const outcome = await this.#sender.send(batch, signal);
      if (outcome.kind !== "busy" || signal.aborted) return outcome;
      const delayMs = outcome.retryAfterMs ?? backoffMs(numTries, RETRY) * (1 + JITTER * (Math.random() - 0.5));
      if (performance.now() + delayMs >= deadlineMs) return outcome;
      await this.#pause(delayMs, signal);
      if (signal.aborted) return outcome;
    }
  }

  /** Logged for the first failure, then at every tenfold count, so that the log stays small. */
  #drop(count: number): void {
    const before = this.#numDropped;
    this.#numDropped += count;
    if (before > 0 && Math.floor(Math.log10(this.#numDropped)) === Math.floor(Math.log10(before))) return;
    this.#log.warn(LOG_LOCATION, `the queue of spans is full: ${this.#numDropped} are lost so far`);
  }
}

/** The timer does not hold the process: `close()` has one that does. */
function sleepUntilAborted(ms: number, signal: AbortSignal): Promise<void> {
  return sleep(ms, undefined, { signal, ref: false }).catch(() => undefined);
}
