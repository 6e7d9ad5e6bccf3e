/**
 * A store in a local folder, opened in a worker process, because vector search is CPU-bound. Source: vector-store.ts
 * defines the interface.
 */
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import { WorkerProcess } from "@nereid/server/worker-process/worker-process";
import type { EmbeddedCall, EmbeddedData } from "./embedded-calls.ts";
import type { CollectionShape, Hit, Row, SearchQuery, VectorStore } from "./vector-store.ts";

export class EmbeddedStore implements VectorStore {
  readonly location: string;
  readonly #worker: WorkerProcess;

  constructor(data: EmbeddedData, log: (message: string) => void) {
    this.location = `${data.kind}:${data.folder}`;
    this.#worker = new WorkerProcess({
      program: fileURLToPath(new URL(`./embedded-worker${extname(import.meta.url)}`, import.meta.url)),
      data,
      title: `the process of the store ${this.location}`,
      log,
    });
  }

  async search(collection: string, query: SearchQuery): Promise<readonly (readonly Hit[])[]> {
    return (await this.#call({ method: "search", collection, query })) as readonly (readonly Hit[])[];
  }

  async create(collection: string, shape: CollectionShape): Promise<void> {
    await this.#call({ method: "create", collection, shape });
  }

  async upsert(collection: string, rows: readonly Row[]): Promise<void> {
    await this.#call({ method: "upsert", collection, rows });
  }

  async digests(collection: string, ids: readonly string[]): Promise<readonly (string | undefined)[]> {
    return (await this.#call({ method: "digests", collection, ids })) as readonly (string | undefined)[];
  }

  async close(): Promise<void> {
    await this.#call({ method: "close" }).catch(() => undefined);
    await this.#worker.close();
  }

  #call(call: EmbeddedCall): Promise<unknown> {
    return this.#worker.call(call);
  }
}
