/**
 * Documents in MongoDB or a compatible database, by the official driver. With `$vectorSearch` it is a vector store as
 * well; otherwise it holds the documents of another store's vectors. Source: MongoDB Atlas documentation,
 * "$vectorSearch".
 */

import { ServerError } from "@nereid/server/core/server-error";
import type { Collection, Db, MongoClient, Filter as MongoFilter } from "mongodb";
import { AwayWindow } from "./away-window.ts";
import { displayAddress } from "./postgres-connection.ts";
import type {
  CollectionShape,
  Condition,
  DocumentObject,
  Filter,
  Hit,
  Metric,
  Row,
  SearchQuery,
  VectorStore,
} from "./vector-store.ts";

export interface MongoOptions {
  /** With a database name as path; default "nereid". */
  readonly url: string;
  readonly maxConnections: number;
  readonly timeoutMs: number;
}

interface StoredRow {
  readonly _id: string;
  readonly document: DocumentObject;
  readonly digest: string;
  readonly embedding?: readonly number[];
}

const DEFAULT_DATABASE = "nereid";
/** numCandidates per hit of the approximate search. */
const CANDIDATES_PER_HIT = 20;
const MAX_CANDIDATES = 10_000;
const OPERATORS: Readonly<Record<Condition["test"], string>> = {
  is: "$eq",
  not: "$ne",
  in: "$in",
  gt: "$gt",
  gte: "$gte",
  lt: "$lt",
  lte: "$lte",
};
const SIMILARITIES: Readonly<Record<Metric, string>> = { cosine: "cosine", dot: "dotProduct", l2: "euclidean" };
/** The server's score is between 0 and 1. */
const SCORES: Readonly<Record<Metric, (score: number) => number>> = {
  cosine: (score) => 2 * score - 1,
  dot: (score) => 2 * score - 1,
  l2: (score) => 1 - 1 / score,
};
/** Names of the driver's errors that say that no server answers. */
const AWAY = /Network|ServerSelection|Timeout|NotConnected|TopologyClosed|PoolClosed|PoolCleared|Parse|Expired/;
/** The driver passes some of a socket's errors on as they are: EPIPE. */
const SYSTEM_ERROR = /^E[A-Z]+$/;
const MAX_REASON_CHARS = 300;
const UNKNOWN_STAGE = 40_324;
/** Command not found, not implemented, and Atlas without an index service. */
const NO_SEARCH = new Set([UNKNOWN_STAGE, 59, 238, 31_082, 6_047_401]);

export class MongoStore implements VectorStore {
  readonly location: string;
  readonly #options: MongoOptions;
  readonly #window: AwayWindow;
  #client: Promise<MongoClient> | undefined;

  constructor(options: MongoOptions) {
    this.location = displayAddress(options.url);
    this.#options = options;
    this.#window = new AwayWindow(this.location);
  }

  async search(name: string, query: SearchQuery): Promise<readonly (readonly Hit[])[]> {
    return this.#run(name, (rows) => Promise.all(query.vectors.map((vector) => searchOne(rows, name, vector, query))));
  }

  async create(name: string, { dimensions, metric }: CollectionShape): Promise<void> {
    const fields = [{ type: "vector", path: "embedding", numDimensions: dimensions, similarity: SIMILARITIES[metric] }];
    await this.#run(name, async (rows) => {
      await rows.createSearchIndex({ name: indexOf(name), type: "vectorSearch", definition: { fields } });
    });
  }

  async upsert(name: string, rows: readonly Row[]): Promise<void> {
    await this.#write(name, rows, (row) => ({ embedding: [...row.vector] }));
  }

  /** Without their vectors. */
  async upsertDocuments(name: string, rows: readonly Row[]): Promise<void> {
    await this.#write(name, rows, () => ({}));
  }

  async digests(name: string, ids: readonly string[]): Promise<readonly (string | undefined)[]> {
    const found = await this.#find(name, ids);
    return ids.map((id) => found.get(id)?.digest);
  }

  /** JSON texts; undefined when the document does not exist. */
  async documents(name: string, ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
    const found = await this.#find(name, ids);
    return new Map([...found].map(([id, { document }]) => [id, JSON.stringify(document)]));
  }

  async close(): Promise<void> {
    const client = await this.#client?.catch(() => undefined);
    this.#client = undefined;
    await client?.close();
  }

  #find(name: string, ids: readonly string[]): Promise<ReadonlyMap<string, StoredRow>> {
    return this.#run(name, async (rows) => {
      const projection = { embedding: 0 };
      const found = rows.find({ _id: { $in: [...new Set(ids)] } }, { projection, maxTimeMS: this.#options.timeoutMs });
      return new Map((await found.toArray()).map((row) => [row._id, row]));
    });
  }

  #write(name: string, rows: readonly Row[], more: (row: Row) => object): Promise<void> {
    return this.#run(name, async (collection) => {
      const updates = rows.map((row) => ({
        updateOne: {
          filter: { _id: row.id },
          update: { $set: { document: row.document, digest: row.digest, ...more(row) } },
          upsert: true,
        },
      }));
      await collection.bulkWrite(updates, { ordered: false });
    });
  }

  async #run<T>(name: string, work: (rows: Collection<StoredRow>) => Promise<T>): Promise<T> {
    this.#window.expectThere();
    try {
      const database = await this.#database();
      const result = await work(database.collection<StoredRow>(name));
      this.#window.answered();
      return result;
    } catch (error) {
      throw error instanceof ServerError ? error : this.#explain(error);
    }
  }

  async #database(): Promise<Db> {
    this.#client ??= this.#connect();
    const { url } = this.#options;
    const path = /^mongodb(?:\+srv)?:\/\/[^/]+\/([^?]+)/.exec(url)?.[1];
    return (await this.#client).db(path ?? DEFAULT_DATABASE);
  }

  /**
   * A connected client discovers servers and reconnects itself. One whose first connect failed closes its topology for ever:
   * the next call makes another.
   */
  async #connect(): Promise<MongoClient> {
    const { MongoClient } = await importDriver();
    const { url, maxConnections, timeoutMs } = this.#options;
    const client = new MongoClient(url, {
      appName: "nereid",
      maxPoolSize: maxConnections,
      serverSelectionTimeoutMS: timeoutMs,
      connectTimeoutMS: timeoutMs,
      socketTimeoutMS: timeoutMs,
      waitQueueTimeoutMS: timeoutMs,
    });
    try {
      return await client.connect();
    } catch (error) {
      this.#client = undefined;
      await client.close().catch(() => undefined);
      throw error;
    }
  }

  #explain(error: unknown): ServerError {
    const { code, name } = error as { readonly code?: unknown; readonly name?: unknown };
    if (typeof code === "number" && NO_SEARCH.has(code)) {
      const fix = "keep vectors in PostgreSQL or PGlite (parameter 'store') and name this server in 'documents'";
      return new ServerError("unsupported", `${this.location} has no $vectorSearch; ${fix}`, { cause: error });
    }
    if (code === 18 || code === 13)
      return new ServerError("unavailable", `${this.location} refuses the user or password`, { cause: error });
    const kind = String(name);
    const tooOld = incompatibility(error);
    if (tooOld !== undefined) {
      const text = `${this.location} does not fit the MongoDB driver: ${tooOld}`;
      return new ServerError("unavailable", text, { cause: error });
    }
    if (AWAY.test(kind) || code === 50 || SYSTEM_ERROR.test(String(code)))
      return this.#window.failed(`${kind}: ${reasonOf(error)}`, error);
    const text = `${this.location} refused a command (${kind} ${String(code ?? "")}): ${reasonOf(error)}`;
    return new ServerError("internal", text, { cause: error });
  }
}

/** The driver tells a server of another release as one that it cannot find. */
function incompatibility(error: unknown): string | undefined {
  const { name, message, reason } = error as {
    readonly name?: unknown;
    readonly message?: unknown;
    readonly reason?: { readonly compatibilityError?: unknown };
  };
  if (name === "MongoCompatibilityError") return String(message);
  const found = reason?.compatibilityError;
  return typeof found === "string" ? found : undefined;
}

/** The driver's words, which hold hosts and no credentials, on one line and within bounds. */
function reasonOf(error: unknown): string {
  const { message } = error as { readonly message?: unknown };
  return String(message).replaceAll(/\s+/g, " ").slice(0, MAX_REASON_CHARS);
}

async function searchOne(
  rows: Collection<StoredRow>,
  name: string,
  vector: Float32Array,
  { k, metric, filter }: SearchQuery,
): Promise<readonly Hit[]> {
  const search = {
    index: indexOf(name),
    path: "embedding",
    queryVector: [...vector],
    numCandidates: Math.min(MAX_CANDIDATES, k * CANDIDATES_PER_HIT),
    limit: k,
    ...(filter.length === 0 ? {} : { filter: mongoFilter(filter) }),
  };
  const projection = { document: 1, score: { $meta: "vectorSearchScore" } };
  const found = await rows.aggregate<StoredRow & { score: number }>([
    { $vectorSearch: search },
    { $project: projection },
  ]);
  return (await found.toArray()).map(({ _id, document, score }) => ({
    id: _id,
    score: SCORES[metric](score),
    document: JSON.stringify(document),
  }));
}

/** Every value follows an operator of our own, so client text is never an operator. */
function mongoFilter(filter: Filter): MongoFilter<StoredRow> {
  return { $and: filter.map(({ field, test, value }) => ({ [`document.${field}`]: { [OPERATORS[test]]: value } })) };
}

function indexOf(name: string): string {
  return `${name}_vectors`;
}

async function importDriver(): Promise<typeof import("mongodb")> {
  try {
    return await import("mongodb");
  } catch (cause) {
    const text = "stores at mongodb:// need the package mongodb, which is not installed here; run: npm install mongodb";
    throw new ServerError("unavailable", text, { cause });
  }
}
