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
  readonly place: string;
  readonly #helper: WorkerProcess;

  constructor(data: EmbeddedData, log: (message: string) => void) {
    this.place = `${data.kind}:${data.folder}`;
    this.#helper = new WorkerProcess({
      program: fileURLToPath(new URL(`./embedded-worker${extname(import.meta.url)}`, import.meta.url)),
      data,
      title: `the process of the store ${this.place}`,
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
    await this.#helper.close();
  }

  #call(call: EmbeddedCall): Promise<unknown> {
    return this.#helper.call(call);
  }
}
