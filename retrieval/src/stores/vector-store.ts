/**
 * Interface of a vector store: nearest-neighbour queries, writes, and digests. A store holds collections by name; each
 * row has an id, a vector and a document. Source: the operations that pgvector and MongoDB Atlas share.
 */

/** Similarity of two vectors; larger is nearer: cosine, inner product, or negative L2 distance. */
export type Metric = "cosine" | "dot" | "l2";

export const METRICS: readonly Metric[] = ["cosine", "dot", "l2"];

export type DocumentValue =
  | null
  | boolean
  | number
  | string
  | readonly DocumentValue[]
  | { readonly [key: string]: DocumentValue };

export type DocumentObject = { readonly [key: string]: DocumentValue };

/** A condition on one member of a document. All conditions of a filter must hold. */
export interface Condition {
  readonly field: string;
  readonly test: "is" | "not" | "in" | "gt" | "gte" | "lt" | "lte";
  readonly value: DocumentValue;
}

export type Filter = readonly Condition[];

export interface SearchQuery {
  readonly vectors: readonly Float32Array[];
  /** Requested hits per vector. */
  readonly k: number;
  readonly metric: Metric;
  readonly filter: Filter;
}

export interface Hit {
  readonly id: string;
  readonly score: number;
  /** JSON text. */
  readonly document: string;
}

export interface Row {
  readonly id: string;
  readonly vector: Float32Array;
  readonly document: DocumentObject;
  /** Digest of the record from which the row was made. */
  readonly digest: string;
}

export interface CollectionShape {
  readonly dimensions: number;
  readonly metric: Metric;
  /** True: an approximate index, much faster in large collections. */
  readonly isApproximate: boolean;
}

export interface VectorStore {
  /** The address without secrets, for messages. */
  readonly location: string;
  /** Hits per vector, best first. @throws ServerError unavailable: the store cannot be reached */
  search(collection: string, query: SearchQuery): Promise<readonly (readonly Hit[])[]>;
  /** Creates the collection if needed. @throws ServerError invalid_argument: it exists with another shape */
  create(collection: string, shape: CollectionShape): Promise<void>;
  /** Replaces rows with the same ids. */
  upsert(collection: string, rows: readonly Row[]): Promise<void>;
  /** The digest of each id; undefined when there is no such row. */
  digests(collection: string, ids: readonly string[]): Promise<readonly (string | undefined)[]>;
  close(): Promise<void>;
}
