/**
 * Runs the requests of one batch: checks the input, asks for each line, and gathers results. Requests that an earlier server has
 * answered are not asked again. Source: OpenAI's guide, "Batch API".
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { StoredFile } from "../files/file-store.ts";
import { nowSeconds } from "../openai-context.ts";
import type { AskRoute, RouteAnswer } from "./ask-route.ts";
import type { Batch, BatchStatus, InputFault } from "./batch.ts";
import type { BatchResults, RequestResult, ResultKind } from "./batch-results.ts";
import { asFault, checkInput, type InputLine, readLine, type TextLine } from "./input-lines.ts";
import type { Slots } from "./slots.ts";

/** One batch, and how its state is kept. */
export interface RunSubject {
  readonly owner: string;
  readonly batch: Batch;
  /** Aborted when the batch is cancelled or the server ends. */
  readonly signal: AbortSignal;
  /** Shown at once, and kept. */
  update(change: Partial<Batch>): Promise<void>;
  /** Shown at once; a restarted server counts anew. */
  count(completed: number, failed: number): void;
}

export interface RunParts {
  readonly ask: AskRoute;
  readonly slots: Slots;
  /** The server no longer takes requests: the batch goes on when it is back. */
  readonly isEnding: () => boolean;
  /** Undefined: the file is gone. */
  readonly openLines: () => AsyncIterable<TextLine> | undefined;
  readonly openResults: () => Promise<BatchResults>;
  readonly adopt: (kind: ResultKind, path: string, bytes: number) => Promise<StoredFile>;
}

/** Requests of one batch at once, of which all that have a slot run. */
const MAX_OPEN = 32;
const MAX_WAIT_MS = 30_000;
const UNAVAILABLE = 503;
/** Waits before a request that the server could not take is asked again. */
const RETRY_MS = [200, 1000, 5000, 15_000, 30_000];

const NOT_RUN = {
  cancelled: { code: "batch_cancelled", message: "This request was not executed because the batch was cancelled." },
  expired: {
    code: "batch_expired",
    message: "This request could not be executed before the completion window expired.",
  },
} as const;

type EarlyEnd = keyof typeof NOT_RUN;

/** Never rejects for a fault of the batch: that is its state. */
export async function runBatch(subject: RunSubject, parts: RunParts): Promise<void> {
  try {
    await new BatchRun(subject, parts).run();
  } catch (error) {
    if (!parts.isEnding()) await fail(subject, [asFault(error)]);
  }
}

async function fail(subject: RunSubject, data: readonly InputFault[]): Promise<void> {
  await subject.update({ status: "failed", failed_at: nowSeconds(), errors: { object: "list", data } });
}

class BatchRun {
  readonly #subject: RunSubject;
  readonly #parts: RunParts;

  constructor(subject: RunSubject, parts: RunParts) {
    this.#subject = subject;
    this.#parts = parts;
  }

  async run(): Promise<void> {
    const { status, in_progress_at: inProgressAt } = this.#subject.batch;
    if (status === "validating" && !(await this.#validate())) return;
    if (status === "cancelling" && inProgressAt === undefined) {
      await this.#subject.update(ended("cancelled"));
      return;
    }
    const results = await this.#parts.openResults();
    try {
      await this.#runLines(results);
    } catch (error) {
      await (this.#parts.isEnding() ? results.close() : results.discard());
      throw error;
    }
    if (this.#parts.isEnding()) await results.close();
    else await this.#finish(results);
  }

  async #validate(): Promise<boolean> {
    const { total, faults } = await checkInput(this.#lines(), this.#subject.batch.endpoint);
    const counts = { total, completed: 0, failed: 0 };
    if (faults.length > 0) {
      await fail(this.#subject, faults);
      return false;
    }
    const isCancelling = this.#subject.batch.status === "cancelling";
    const status: BatchStatus = isCancelling ? "cancelling" : "in_progress";
    await this.#subject.update({ status, in_progress_at: nowSeconds(), request_counts: counts });
    return true;
  }

  #lines(): AsyncIterable<TextLine> {
    const lines = this.#parts.openLines();
    if (lines === undefined) throw new Error("The input file was deleted");
    return lines;
  }

  async #runLines(results: BatchResults): Promise<void> {
    const open = new Set<Promise<void>>();
    const failures: unknown[] = [];
    for await (const { text } of this.#lines()) {
      if (this.#parts.isEnding() || failures.length > 0) break;
      const line = readLine(text, this.#subject.batch.endpoint);
      if (results.has(line.custom_id)) continue;
      const task = this.#answer(line, results)
        .catch((error: unknown) => void failures.push(error))
        .finally(() => open.delete(task));
      open.add(task);
      if (open.size >= MAX_OPEN) await Promise.race(open);
    }
    await Promise.all(open);
    if (failures.length > 0) throw failures[0];
  }

  async #answer(line: InputLine, results: BatchResults): Promise<void> {
    const result = await this.#resultOf(line);
    if (result === undefined) return;
    await results.add(result);
    this.#subject.count(results.numCompleted, results.numFailed);
  }

  /** Undefined: a later server answers the line. */
  async #resultOf({ custom_id: customId, body }: InputLine): Promise<RequestResult | undefined> {
    const { owner, signal } = this.#subject;
    const { endpoint } = this.#subject.batch;
    for (let numTries = 0; ; numTries++) {
      const answer = await this.#parts.slots.run(async () =>
        this.#earlyEnd() === undefined && !this.#parts.isEnding()
          ? this.#parts.ask({ owner, endpoint, body, signal })
          : undefined,
      );
      if (this.#parts.isEnding() && (answer?.status ?? UNAVAILABLE) >= 400) return undefined;
      const early = this.#earlyEnd();
      if (early !== undefined && (answer === undefined || answer.status >= 400)) {
        return { customId, response: undefined, error: NOT_RUN[early] };
      }
      const waitMs = answer && retryMs(answer, numTries);
      if (answer !== undefined && waitMs === undefined) return { customId, response: answer, error: undefined };
      await sleep(waitMs, undefined, { signal, ref: false }).catch(() => undefined); // an abort shows in the next round
    }
  }

  #earlyEnd(): EarlyEnd | undefined {
    const { status, expires_at: expiresAt } = this.#subject.batch;
    if (status === "cancelling") return "cancelled";
    return nowSeconds() >= expiresAt ? "expired" : undefined;
  }

  async #finish(results: BatchResults): Promise<void> {
    const early = this.#earlyEnd();
    if (early !== "cancelled") await this.#subject.update({ status: "finalizing", finalizing_at: nowSeconds() });
    const files = await results.finish(async (kind, path, bytes) => (await this.#parts.adopt(kind, path, bytes)).id);
    await this.#subject.update({
      output_file_id: files.output,
      error_file_id: files.error,
      ...ended(early),
    });
  }
}

function ended(early: EarlyEnd | undefined): Partial<Batch> {
  const now = nowSeconds();
  if (early === "cancelled") return { status: "cancelled", cancelled_at: now };
  if (early === "expired") return { status: "expired", expired_at: now };
  return { status: "completed", completed_at: now };
}

/** Milliseconds after which the request is asked again; undefined: this answer stays. */
function retryMs({ status, retryAfterMs }: RouteAnswer, numTries: number): number | undefined {
  if (retryAfterMs !== undefined) return Math.min(retryAfterMs, MAX_WAIT_MS);
  return status === UNAVAILABLE ? RETRY_MS[numTries] : undefined;
}
