/** Calls to the process of an embedded store: the methods of `VectorStore` as data. Source: vector-store.ts. */
import type { CollectionShape, Row, SearchQuery } from "./vector-store.ts";

export interface EmbeddedData {
  readonly kind: "memory" | "pglite";
  readonly folder: string;
}

export type EmbeddedCall =
  | { readonly method: "search"; readonly collection: string; readonly query: SearchQuery }
  | { readonly method: "create"; readonly collection: string; readonly shape: CollectionShape }
  | { readonly method: "upsert"; readonly collection: string; readonly rows: readonly Row[] }
  | { readonly method: "digests"; readonly collection: string; readonly ids: readonly string[] }
  | { readonly method: "close" };
