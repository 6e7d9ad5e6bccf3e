/**
 * Sends spans to a collector in batches, one at a time. Source: OpenTelemetry OTLP/HTTP, JSON encoding. Nothing waits
 * for it; rejected spans are dropped and logged.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { backoffMs } from "../../core/backoff.ts";
import { BoundedSignal } from "../../core/bounded-signal.ts";
import type { Logger } from "../log.ts";
import type { OtlpSettings } from "./otlp-settings.ts";
import type { OtlpSpan } from "./otlp-spans.ts";

const LOG_LOCATION = "tracer";
const MAX_TRIES = 3;
const RETRY = { firstMs: 500, maxMs: 30_000 };
const TRY_TIMEOUT_MS = 10_000;
/** Time limit at shutdown, for all remaining spans. */
const CLOSE_TIMEOUT_MS = 5000;
/** Retryable statuses (OTLP specification, "Retryable Response Codes"). */
const TRANSIENT_STATUSES: ReadonlySet<number> = new Set([429, 502, 503, 504]);
const SCOPE = { name: "triton-server" };

export interface OtlpExporterOptions {
  readonly settings: OtlpSettings;
  readonly log: Logger;
  /** Node's own by default. */
  readonly fetch?: typeof fetch;
}

export class OtlpExporter {
  readonly #settings: OtlpSettings;
  readonly #log: Logger;
  readonly #fetch: typeof fetch;
  readonly #resource: object;
  readonly #closing = new AbortController();
  #queue: OtlpSpan[] = [];
  #numDropped = 0;
  #timer: NodeJS.Timeout | undefined;
  #sending: Promise<void> | undefined;

  constructor({ settings, log, fetch: send = fetch }: OtlpExporterOptions) {
    this.#settings = settings;
    this.#log = log;
    this.#fetch = send;
    const attributes = [...settings.resource].map(([key, value]) => ({ key, value: { stringValue: value } }));
    this.#resource = { attributes };
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
  }

  #send(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#sending !== undefined || this.#queue.length === 0) return;
    const batch = this.#queue.splice(0, this.#settings.maxExportBatchSize);
    this.#sending = this.#deliver(batch).finally(() => {
      this.#sending = undefined;
      if (this.#queue.length >= this.#settings.maxExportBatchSize) this.#send();
      else if (this.#queue.length > 0)
        this.#timer ??= setTimeout(() => this.#send(), this.#settings.scheduleDelayMs).unref();
    });
  }

  async #deliver(spans: readonly OtlpSpan[]): Promise<void> {
    const body = JSON.stringify({
      resourceSpans: [{ resource: this.#resource, scopeSpans: [{ scope: SCOPE, spans }] }],
    });
    let fault = "";
    for (let numTries = 1; ; numTries += 1) {
      const outcome = await this.#tryOnce(body);
      if (outcome === "taken") return;
      fault = outcome.fault;
      if (!outcome.isPassing || numTries === MAX_TRIES || this.#closing.signal.aborted) break;
      await this.#pause(backoffMs(numTries, RETRY));
    }
    this.#log.error(LOG_LOCATION, `${spans.length} spans are lost: ${this.#settings.url} ${fault}`);
  }

  async #tryOnce(body: string): Promise<"taken" | { readonly fault: string; readonly isPassing: boolean }> {
    const bounded = new BoundedSignal(this.#closing.signal, TRY_TIMEOUT_MS);
    const { signal } = bounded;
    try {
      const headers = { "content-type": "application/json" };
      const response = await this.#fetch(this.#settings.url, { method: "POST", headers, body, signal });
      await response.body?.cancel();
      if (response.ok) return "taken";
      return { fault: `answered ${response.status}`, isPassing: TRANSIENT_STATUSES.has(response.status) };
    } catch (error) {
      return { fault: `could not be reached: ${reasonOf(error)}`, isPassing: true };
    } finally {
      bounded.clear();
    }
  }

  /** Shorter at shutdown. */
  #pause(ms: number): Promise<unknown> {
    return sleep(ms, undefined, { signal: this.#closing.signal, ref: false }).catch(() => undefined);
  }

  /** Logged for the first failure, then at every tenfold count, so that the log stays small. */
  #drop(count: number): void {
    const before = this.#numDropped;
    this.#numDropped += count;
    if (before > 0 && Math.floor(Math.log10(this.#numDropped)) === Math.floor(Math.log10(before))) return;
    this.#log.warn(LOG_LOCATION, `the queue of spans is full: ${this.#numDropped} are lost so far`);
  }
}

/** The cause has the reason that the message of `fetch` lacks. */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  return cause instanceof Error ? cause.message : String(cause);
}
