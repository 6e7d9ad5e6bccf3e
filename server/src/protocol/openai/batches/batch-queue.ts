/**
 * The batches of a folder: kept as JSON files, started in order, a few of each owner at once. A restarted server goes on
 * with those that were in progress. Source: OpenAI's API reference, "Batch"; own design for the folder.
 */
import { randomUUID } from "node:crypto";
import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import type { ServerState } from "../../../core/model-server.ts";
import { describeThrown } from "../../../core/server-error.ts";
import { writeFileAtomically } from "../../../files/atomic-output.ts";
import type { Logger } from "../../../observe/log.ts";
import { ApiError, invalidParameter } from "../../api/api-error.ts";
import type { FileStore, StoredFile } from "../files/file-store.ts";
import { nowSeconds } from "../openai-context.ts";
import type { AskRoute } from "./ask-route.ts";
import { type Batch, type BatchRequest, isOver, OWNED_BATCH } from "./batch.ts";
import { BatchResults } from "./batch-results.ts";
import { type RunSubject, runBatch } from "./batch-run.ts";
import { linesOf } from "./input-lines.ts";
import { Slots } from "./slots.ts";

export interface BatchQueueParts {
  readonly files: FileStore;
  readonly ask: AskRoute;
  readonly maxLineBytes: number;
  /** Requests of all batches that run at once. */
  readonly maxRequests: number;
  readonly serverState: () => ServerState;
  readonly log: Logger;
}

/** OpenAI's only completion window. */
const WINDOW_S = 86_400;
const RESULT_LIFETIME_S = 2_592_000;
const MAX_BATCHES = 10_000;
const MAX_RUNNING = 2;
const MAX_OPEN = 100;
const WATCH_MS = 250;
const BATCH_FILE = /^batch_[0-9a-f]{32}\.json$/;

export class BatchQueue {
  readonly #parts: BatchQueueParts;
  readonly #folder: string;
  readonly #slots: Slots;
  readonly #entries = new Map<string, Entry>();

  private constructor(parts: BatchQueueParts) {
    this.#parts = parts;
    this.#folder = join(parts.files.folder, "..", "batches");
    this.#slots = new Slots(parts.maxRequests);
  }

  static async open(parts: BatchQueueParts): Promise<BatchQueue> {
    const queue = new BatchQueue(parts);
    await mkdir(queue.#folder, { recursive: true, mode: 0o700 });
    await queue.#load();
    setInterval(() => queue.#watch(), WATCH_MS).unref();
    return queue;
  }

  /** The newest first. */
  list(owner: string): readonly Batch[] {
    return [...this.#entries.values()]
      .filter((entry) => entry.owner === owner)
      .map(({ batch }) => batch)
      .reverse();
  }

  find(owner: string, id: string): Batch | undefined {
    const entry = this.#entries.get(id);
    return entry?.owner === owner ? entry.batch : undefined;
  }

  /** @throws ApiError when the owner has too many, or not this file */
  async create(owner: string, request: BatchRequest): Promise<Batch> {
    expectInput(this.#parts.files.find(owner, request.input_file_id), request.input_file_id);
    const numOpen = this.list(owner).filter((batch) => !isOver(batch)).length;
    if (numOpen >= MAX_OPEN) throw tooMany();
    await this.#makeRoom();
    const now = nowSeconds();
    const batch: Batch = {
      id: `batch_${randomUUID().replaceAll("-", "")}`,
      object: "batch",
      ...request,
      status: "validating",
      created_at: now,
      expires_at: now + WINDOW_S,
      request_counts: { total: 0, completed: 0, failed: 0 },
    };
    const entry = new Entry(this.#folder, owner, batch);
    this.#entries.set(batch.id, entry);
    await entry.update({});
    this.#start();
    return batch; // as it was made: it may be further by now
  }

  /** One that is over stays as it is. */
  async cancel(owner: string, id: string): Promise<Batch | undefined> {
    const entry = this.#entries.get(id);
    if (entry?.owner !== owner) return undefined;
    if (!isOver(entry.batch) && entry.batch.status !== "finalizing" && entry.batch.status !== "cancelling") {
      await entry.update({ status: "cancelling", cancelling_at: nowSeconds() });
      entry.abort();
    }
    return entry.batch;
  }

  async #load(): Promise<void> {
    const found: Entry[] = [];
    for (const name of await readdir(this.#folder)) {
      if (!BATCH_FILE.test(name)) continue;
      const { owner, batch } = OWNED_BATCH.read(JSON.parse(await readFile(join(this.#folder, name), "utf8")), "");
      found.push(new Entry(this.#folder, owner, batch));
    }
    found.sort((a, b) => a.batch.created_at - b.batch.created_at);
    for (const entry of found) this.#entries.set(entry.batch.id, entry);
  }

  /** The oldest that is over goes. @throws ApiError when none is */
  async #makeRoom(): Promise<void> {
    if (this.#entries.size < MAX_BATCHES) return;
    const oldest = [...this.#entries.values()].find(({ batch }) => isOver(batch));
    if (oldest === undefined) throw tooMany();
    this.#entries.delete(oldest.batch.id);
    await rm(oldest.path, { force: true });
  }

  /** Batches wait until the models are loaded, and stop when the server ends. */
  #watch(): void {
    const state = this.#parts.serverState();
    if (state === "running") this.#start();
    if (state === "exiting") for (const entry of this.#entries.values()) entry.abort();
  }

  #start(): void {
    if (this.#parts.serverState() !== "running") return;
    const running = new Map<string, number>();
    const open = [...this.#entries.values()].filter(({ batch }) => !isOver(batch));
    for (const { owner, isRunning } of open) if (isRunning) running.set(owner, (running.get(owner) ?? 0) + 1);
    for (const entry of open) {
      const numRunning = running.get(entry.owner) ?? 0;
      if (entry.isRunning || numRunning >= MAX_RUNNING) continue;
      running.set(entry.owner, numRunning + 1);
      void this.#run(entry);
    }
  }

  async #run(entry: Entry): Promise<void> {
    const { files, ask, maxLineBytes, serverState, log } = this.#parts;
    entry.isRunning = true;
    try {
      await runBatch(entry, {
        ask,
        slots: this.#slots,
        isEnding: () => serverState() === "exiting",
        openLines: () => {
          const file = files.find(entry.owner, entry.batch.input_file_id);
          return file && linesOf(files.read(file), maxLineBytes);
        },
        openResults: () => BatchResults.open(this.#folder, entry.batch.id, files),
        adopt: (kind, path, bytes) => files.adopt(path, bytes, resultFacts(entry, kind)),
      });
    } catch (error) {
      log.error("http", `${entry.batch.id}: ${describeThrown(error)}`);
    } finally {
      entry.isRunning = false;
    }
    this.#start();
  }
}

function resultFacts(
  { owner, batch }: Entry,
  kind: string,
): Pick<StoredFile, "owner" | "fileName" | "purpose" | "expiresAt"> {
  const expiresAt = nowSeconds() + (batch.output_expires_after?.seconds ?? RESULT_LIFETIME_S);
  return { owner, fileName: `${batch.id}_${kind}.jsonl`, purpose: "batch_output", expiresAt };
}

function expectInput(file: StoredFile | undefined, id: string): void {
  if (file === undefined) throw invalidParameter("input_file_id", "file_not_found", `No such File object: ${id}`);
  if (file.purpose === "batch") return;
  const message = `Invalid 'input_file_id': expected a file with purpose 'batch', got '${file.purpose}'.`;
  throw invalidParameter("input_file_id", "invalid_value", message);
}

function tooMany(): ApiError {
  const message = `Too many batches: expected at most ${MAX_OPEN} that are not over.`;
  return new ApiError({
    status: 400,
    type: "invalid_request_error",
    code: "batch_limit_exceeded",
    param: null,
    message,
  });
}

class Entry implements RunSubject {
  readonly owner: string;
  readonly path: string;
  isRunning = false;
  #batch: Batch;
  readonly #cancellation = new AbortController();
  /** States are written in order. */
  #last: Promise<void> = Promise.resolve();

  constructor(folder: string, owner: string, batch: Batch) {
    this.owner = owner;
    this.path = join(folder, `${batch.id}.json`);
    this.#batch = batch;
  }

  get batch(): Batch {
    return this.#batch;
  }

  get signal(): AbortSignal {
    return this.#cancellation.signal;
  }

  abort(): void {
    this.#cancellation.abort();
  }

  update(change: Partial<Batch>): Promise<void> {
    this.#batch = { ...this.#batch, ...change };
    const text = JSON.stringify({ owner: this.owner, batch: this.#batch });
    this.#last = this.#last.catch(() => undefined).then(() => writeFileAtomically(this.path, text));
    return this.#last;
  }

  count(completed: number, failed: number): void {
    const { total } = this.#batch.request_counts;
    this.#batch = { ...this.#batch, request_counts: { total, completed, failed } };
  }
}
