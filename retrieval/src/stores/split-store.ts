/**
 * Vectors in one store, documents in MongoDB: searches the former and returns documents of the latter. Source:
 * vector-store.ts defines the interface.
 */
import type { MongoStore } from "./mongo-store.ts";
import type { CollectionShape, Hit, Row, SearchQuery, VectorStore } from "./vector-store.ts";

export class SplitStore implements VectorStore {
  readonly location: string;
  readonly #vectors: VectorStore;
  readonly #documents: MongoStore;

  constructor(vectors: VectorStore, documents: MongoStore) {
    this.location = `${vectors.location} with documents in ${documents.location}`;
    this.#vectors = vectors;
    this.#documents = documents;
  }

  /** A row without a document keeps the content stored beside its vector. */
  async search(collection: string, query: SearchQuery): Promise<readonly (readonly Hit[])[]> {
    const found = await this.#vectors.search(collection, query);
    const documents = await this.#documents.documents(
      collection,
      found.flat().map(({ id }) => id),
    );
    return found.map((hits) => hits.map((hit) => ({ ...hit, document: documents.get(hit.id) ?? hit.document })));
  }

  create(collection: string, shape: CollectionShape): Promise<void> {
    return this.#vectors.create(collection, shape);
  }

  /** Documents first: a vector becomes searchable only after its document exists. */
  async upsert(collection: string, rows: readonly Row[]): Promise<void> {
    await this.#documents.upsertDocuments(collection, rows);
    await this.#vectors.upsert(collection, rows);
  }

  digests(collection: string, ids: readonly string[]): Promise<readonly (string | undefined)[]> {
    return this.#vectors.digests(collection, ids);
  }

  async close(): Promise<void> {
    await Promise.all([this.#vectors.close(), this.#documents.close()]);
  }
}
