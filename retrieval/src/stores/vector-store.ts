/**
 * What every store of vectors and documents can do, wherever it is: look up the nearest, write, and say what it has. A store
 * holds collections by name; each row has an id, a vector and a document.
 */

/** How near two vectors are; the score grows with it: cosine, inner product, or the negative distance. */
export type Metric = "cosine" | "dot" | "l2";

export const METRICS: readonly Metric[] = ["cosine", "dot", "l2"];

export type JsonValue = null | boolean | number | string | readonly JsonValue[] | { readonly [key: string]: JsonValue };

export type JsonObject = { readonly [key: string]: JsonValue };

/** A condition on one member of a document. All conditions of a filter must hold. */
export interface Condition {
  readonly field: string;
  readonly test: "is" | "not" | "in" | "gt" | "gte" | "lt" | "lte";
  readonly value: JsonValue;
}

export type Filter = readonly Condition[];

export interface SearchQuery {
  readonly vectors: readonly Float32Array[];
  /** Hits wanted for each vector. */
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
  readonly document: JsonObject;
  /** Tells whether a row is still what it was made from. */
  readonly digest: string;
}

export interface CollectionShape {
  readonly dimensions: number;
  readonly metric: Metric;
  /** True: an index that finds nearly all of the nearest, much faster in large collections. */
  readonly isApproximate: boolean;
}

export interface VectorStore {
  /** The address without secrets, for messages. */
  readonly place: string;
  /** For each vector its hits, best first. @throws ServerError unavailable: the store is away */
  search(collection: string, query: SearchQuery): Promise<readonly (readonly Hit[])[]>;
  /** Makes the collection unless it is there. @throws ServerError invalid_argument: it is there in another shape */
  create(collection: string, shape: CollectionShape): Promise<void>;
  /** Rows with the same ids are replaced. */
  upsert(collection: string, rows: readonly Row[]): Promise<void>;
  /** The digest of each id; undefined where there is no such row. */
  digests(collection: string, ids: readonly string[]): Promise<readonly (string | undefined)[]>;
  close(): Promise<void>;
}
