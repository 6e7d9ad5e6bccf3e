/**
 * Writes records into a collection: several batches at a time are compared, encoded and written. Unchanged records are
 * skipped, so interrupted runs can be continued and repeated runs change nothing.
 */
import { createHash } from "node:crypto";
import type { Reporter } from "@nereid/server/files/progress";
import type { Metric, VectorStore } from "../stores/vector-store.ts";
import type { IndexRecord } from "./read-records.ts";

export interface Encoder {
  /** Name and version of the encoder: vectors of another one differ. */
  readonly name: string;
  /** Maximum records per call. */
  readonly batchSize: number;
  /** One vector for each. */
  encode(contents: readonly (string | Uint8Array)[], signal: AbortSignal): Promise<readonly Float32Array[]>;
}

export interface IndexRecordsOptions {
  readonly records: AsyncIterable<IndexRecord>;
  readonly encoder: Encoder;
  readonly store: VectorStore;
  readonly collection: string;
  readonly metric: Metric;
  readonly isApproximate: boolean;
  /** Concurrent batches. */
  readonly parallel: number;
  readonly reporter: Reporter;
  readonly signal: AbortSignal;
}

export interface IndexSummary {
  readonly numRecords: number;
  readonly numWritten: number;
  readonly dimensions: number | undefined;
}

interface Counts {
  records: number;
  written: number;
  dimensions: number | undefined;
}

/** @throws ToolError for an invalid record; ServerError of the encoder or the store */
export async function indexRecords(options: IndexRecordsOptions): Promise<IndexSummary> {
  const counts: Counts = { records: 0, written: 0, dimensions: undefined };
  const progress = options.reporter.startTask({ task: "Indexing", unit: "records" });
  const running = new Set<Promise<void>>();
  let failure: { readonly error: unknown } | undefined;
  try {
    for await (const batch of batchesOf(options.records, options.encoder.batchSize)) {
      options.signal.throwIfAborted();
      if (failure !== undefined) break;
      // The first batch creates the collection; then others may run concurrently.
      while (running.size >= (counts.dimensions === undefined ? 1 : options.parallel)) await Promise.race(running);
      const work = indexBatch(options, batch, counts)
        .then((numWritten) => {
          counts.records += batch.length;
          counts.written += numWritten;
          if (numWritten === 0) progress.skip(batch.length);
          else progress.add(batch.length, batch.at(-1)?.id);
        })
        .catch((error: unknown) => {
          failure ??= { error };
        })
        .finally(() => running.delete(work));
      running.add(work);
    }
    await Promise.all(running);
  } finally {
    await Promise.allSettled(running);
    progress.end();
  }
  if (failure !== undefined) throw failure.error;
  return { numRecords: counts.records, numWritten: counts.written, dimensions: counts.dimensions };
}

async function indexBatch(
  options: IndexRecordsOptions,
  batch: readonly IndexRecord[],
  counts: Counts,
): Promise<number> {
  const { store, collection, encoder, signal } = options;
  // The last of several records with the same id counts, within a batch as across batches.
  const records = [...new Map(batch.map((record) => [record.id, record])).values()];
  const digests = records.map((record) => digestOf(record, encoder.name));
  const held = await heldDigests(options, records);
  const due = records.flatMap((record, i) => (held[i] === digests[i] ? [] : [{ record, digest: digests[i] ?? "" }]));
  if (due.length === 0) return 0;
  const vectors = await encoder.encode(
    due.map(({ record }) => record.content),
    signal,
  );
  if (counts.dimensions === undefined) {
    const dimensions = vectors[0]?.length ?? 0;
    await store.create(collection, { dimensions, metric: options.metric, isApproximate: options.isApproximate });
    counts.dimensions = dimensions;
  }
  signal.throwIfAborted();
  const rows = due.map(({ record: { id, document }, digest }, i) => ({
    id,
    document,
    digest,
    vector: vectors[i] ?? new Float32Array(0),
  }));
  await store.upsert(collection, rows);
  return due.length;
}

/** A collection that does not exist yet has no records. */
async function heldDigests(
  { store, collection }: IndexRecordsOptions,
  records: readonly IndexRecord[],
): Promise<readonly (string | undefined)[]> {
  try {
    return await store.digests(
      collection,
      records.map(({ id }) => id),
    );
  } catch (error) {
    if ((error as { readonly code?: unknown }).code === "not_found") return [];
    throw error;
  }
}

function digestOf({ content, document }: IndexRecord, encoder: string): string {
  const hash = createHash("sha256").update(encoder).update("\0").update(JSON.stringify(document)).update("\0");
  return hash.update(content).digest("hex").slice(0, 32);
}

async function* batchesOf<T>(items: AsyncIterable<T>, size: number): AsyncGenerator<readonly T[]> {
  let batch: T[] = [];
  for await (const item of items) {
    batch.push(item);
    if (batch.length < size) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}
