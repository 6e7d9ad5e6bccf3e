/**
 * Collections as PostgreSQL tables with pgvector, for servers and PGlite. Source: pgvector README. Values are passed as
 * parameters only; table names are validated and quoted. Knows no driver.
 */
import { ServerError } from "@nereid/server/core/server-error";
import { dimensionMismatch, vectorLengthMismatch } from "./memory-store.ts";
import { filterClause, type SqlParameter } from "./sql-filter.ts";
import type { CollectionShape, Hit, Metric, Row, SearchQuery, VectorStore } from "./vector-store.ts";

export type SqlRow = Readonly<Record<string, unknown>>;

export interface SqlConnection {
  readonly location: string;
  /**
   * Statements are idempotent, because they are repeated when a connection is lost. @throws SqlError @throws
   * ServerError
   */
  query(text: string, parameters: readonly SqlParameter[]): Promise<readonly SqlRow[]>;
  close(): Promise<void>;
}

/** A database error with its SQLSTATE code of five characters. */
export class SqlError extends Error {
  readonly state: string;

  constructor(state: string, message: string) {
    super(message);
    this.state = state;
  }
}

interface MetricSql {
  readonly operator: string;
  /** Converts the operator's distance to a score. */
  readonly score: (distance: string) => string;
  readonly operators: string;
}

const METRIC_SQL: Readonly<Record<Metric, MetricSql>> = {
  cosine: { operator: "<=>", score: (distance) => `1 - (${distance})`, operators: "vector_cosine_ops" },
  dot: { operator: "<#>", score: (distance) => `-(${distance})`, operators: "vector_ip_ops" },
  l2: { operator: "<->", score: (distance) => `-(${distance})`, operators: "vector_l2_ops" },
};
/**
 * Connection setup: enables iterative index scans (hnsw.iterative_scan), which continue until enough rows pass the
 * filter. The search width is the database's own setting. Older releases may refuse it.
 */
export const INDEX_SETTING = "SET hnsw.iterative_scan = strict_order";
const UNDEFINED_TABLE = "42P01";
const DATA_EXCEPTION = "22000";
const NO_SUCH_TYPE = "42704";
const FEATURE_NOT_SUPPORTED = "0A000";
const UNDEFINED_FILE = "58P01";

export class SqlStore implements VectorStore {
  readonly location: string;
  readonly #connection: SqlConnection;

  constructor(connection: SqlConnection) {
    this.location = connection.location;
    this.#connection = connection;
  }

  /** All vectors in one statement: a batch of requests costs one round trip. */
  async search(name: string, query: SearchQuery): Promise<readonly (readonly Hit[])[]> {
    const { vectors, k, metric, filter } = query;
    const { operator, score } = METRIC_SQL[metric];
    const parameters: SqlParameter[] = [vectors.map(vectorText), k];
    const where = filterClause(filter, parameters);
    // The vector is parsed once, not per compared row. An index only supports ordering by distance, so ties are
    // resolved in an outer query.
    const rows = await this.#query(
      name,
      `WITH q AS MATERIALIZED (
         SELECT ordinal::int AS ordinal, v::vector AS v FROM unnest($1::text[]) WITH ORDINALITY AS u(v, ordinal)
       )
       SELECT q.ordinal, h.id, ${score("h.distance")} AS score, h.document::text AS document
       FROM q CROSS JOIN LATERAL (
         SELECT * FROM (
           SELECT id, embedding ${operator} q.v AS distance, document FROM ${quoted(name)}
           WHERE ${where} ORDER BY embedding ${operator} q.v FETCH FIRST $2 ROWS WITH TIES
         ) n ORDER BY distance, id LIMIT $2
       ) h`,
      parameters,
    );
    const hits: Hit[][] = vectors.map(() => []);
    for (const row of rows) {
      const hit = { id: String(row.id), score: Number(row.score), document: String(row.document) };
      hits[Number(row.ordinal) - 1]?.push(hit);
    }
    for (const list of hits) list.sort((a, b) => b.score - a.score || (a.id < b.id ? -1 : 1));
    return hits;
  }

  async create(name: string, { dimensions, metric, isApproximate }: CollectionShape): Promise<void> {
    await this.#query(name, "CREATE EXTENSION IF NOT EXISTS vector", []);
    await this.#query(
      name,
      `CREATE TABLE IF NOT EXISTS ${quoted(name)} (
        id text PRIMARY KEY, embedding vector(${dimensions}) NOT NULL, document jsonb NOT NULL, digest text NOT NULL
      )`,
      [],
    );
    const [found] = await this.#query(
      name,
      `SELECT atttypmod AS dimensions FROM pg_attribute WHERE attrelid = $1::regclass AND attname = 'embedding'`,
      [quoted(name)],
    );
    const held = Number(found?.dimensions ?? dimensions);
    if (held !== dimensions) throw dimensionMismatch(name, held, dimensions);
    if (!isApproximate) return;
    const index = quoted(`${name}_${metric}`);
    const { operators } = METRIC_SQL[metric];
    await this.#query(
      name,
      `CREATE INDEX IF NOT EXISTS ${index} ON ${quoted(name)} USING hnsw (embedding ${operators})`,
      [],
    );
  }

  async upsert(name: string, rows: readonly Row[]): Promise<void> {
    const columns = [
      rows.map(({ id }) => id),
      rows.map(({ vector }) => vectorText(vector)),
      rows.map(({ document }) => JSON.stringify(document)),
      rows.map(({ digest }) => digest),
    ];
    await this.#query(
      name,
      `INSERT INTO ${quoted(name)} (id, embedding, document, digest)
       SELECT id, v::vector, d::jsonb, digest FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS r(id, v, d, digest)
       ON CONFLICT (id) DO UPDATE SET
         embedding = EXCLUDED.embedding, document = EXCLUDED.document, digest = EXCLUDED.digest`,
      columns,
    );
  }

  async digests(name: string, ids: readonly string[]): Promise<readonly (string | undefined)[]> {
    const rows = await this.#query(name, `SELECT id, digest FROM ${quoted(name)} WHERE id = ANY($1::text[])`, [ids]);
    const found = new Map(rows.map(({ id, digest }) => [String(id), String(digest)]));
    return ids.map((id) => found.get(id));
  }

  close(): Promise<void> {
    return this.#connection.close();
  }

  async #query(name: string, text: string, parameters: readonly SqlParameter[]): Promise<readonly SqlRow[]> {
    try {
      return await this.#connection.query(text, parameters);
    } catch (error) {
      throw error instanceof SqlError ? this.#explain(name, error) : error;
    }
  }

  #explain(name: string, error: SqlError): ServerError {
    const lengths = /different vector dimensions (\d+) and (\d+)|expected (\d+) dimensions, not (\d+)/.exec(
      error.message,
    );
    if (error.state === DATA_EXCEPTION && lengths !== null) {
      const [held, got] = [lengths[1] ?? lengths[3], lengths[2] ?? lengths[4]];
      return vectorLengthMismatch(Number(got), Number(held));
    }
    if (error.state === UNDEFINED_TABLE) {
      return new ServerError("not_found", `collection '${name}' is not in ${this.location}; make it with nereid index`);
    }
    if ([NO_SUCH_TYPE, FEATURE_NOT_SUPPORTED, UNDEFINED_FILE].includes(error.state) && /vector/.test(error.message)) {
      return new ServerError("unavailable", `${this.location} has no pgvector; install the extension 'vector' there`);
    }
    return new ServerError("internal", `${this.location} refused a statement (SQL state ${error.state})`, {
      cause: error,
    });
  }
}

/** Names are letters, digits and underscores (see `expectCollectionName`), so quoting suffices. */
function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

function vectorText(vector: Float32Array): string {
  return `[${vector.join(",")}]`;
}
