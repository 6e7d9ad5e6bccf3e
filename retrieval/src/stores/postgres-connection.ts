/**
 * A PostgreSQL connection pool, by the driver `pg`. While the server is away, calls fail at once and a reconnect is
 * tried every second. Statements of lost connections are repeated. Source: PostgreSQL manual, "Error Codes" (SQLSTATE).
 */
import { setTimeout as sleep } from "node:timers/promises";
import { ServerError } from "@nereid/server/core/server-error";
import type { Pool } from "pg";
import { AwayWindow } from "./away-window.ts";
import type { SqlParameter } from "./sql-filter.ts";
import { INDEX_SETTING, type SqlConnection, SqlError, type SqlRow } from "./sql-store.ts";

export interface PostgresOptions {
  readonly url: string;
  readonly maxConnections: number;
  readonly timeoutMs: number;
  /** Maximum repetitions of a statement after lost connections. */
  readonly retries: number;
}

const RETRY_PAUSE_MS = 50;
const IDLE_MS = 30_000;
const SQL_STATE = /^[0-9A-Z]{5}$/;
/** The server is stopping, starting, or has too many connections: classes 08, 53, and parts of 57. */
const AWAY_STATES = /^(?:08...|53300|57P0[123]|57P05)$/;
const CONNECT_TIMEOUT = /timeout exceeded when trying to connect/;
const CANCELLED_BY_TIMEOUT = "57014";

export class PostgresConnection implements SqlConnection {
  readonly location: string;
  readonly #options: PostgresOptions;
  readonly #window: AwayWindow;
  #pool: Promise<Pool> | undefined;

  constructor(options: PostgresOptions) {
    this.location = displayAddress(options.url);
    this.#options = options;
    this.#window = new AwayWindow(this.location);
  }

  async query(text: string, parameters: readonly SqlParameter[]): Promise<readonly SqlRow[]> {
    this.#window.expectThere();
    const { retries } = this.#options;
    for (let attempt = 0; ; attempt++) {
      try {
        return await this.#run(text, parameters);
      } catch (error) {
        if (!isLoss(error)) throw this.#explain(error);
        if (attempt === retries || CONNECT_TIMEOUT.test(String(error))) {
          throw this.#window.failed(reasonOf(error), error);
        }
        await sleep(RETRY_PAUSE_MS * 2 ** attempt);
      }
    }
  }

  async close(): Promise<void> {
    const pool = await this.#pool?.catch(() => undefined);
    this.#pool = undefined;
    await pool?.end();
  }

  async #run(text: string, parameters: readonly SqlParameter[]): Promise<readonly SqlRow[]> {
    this.#pool ??= this.#open();
    const { rows } = await (await this.#pool).query<SqlRow>(text, [...parameters]);
    this.#window.answered();
    return rows;
  }

  async #open(): Promise<Pool> {
    const { url, maxConnections, timeoutMs } = this.#options;
    const { default: pg } = await importDriver();
    const pool = new pg.Pool({
      connectionString: url,
      application_name: "nereid",
      max: maxConnections,
      idleTimeoutMillis: IDLE_MS,
      connectionTimeoutMillis: timeoutMs,
      query_timeout: timeoutMs,
      statement_timeout: timeoutMs,
      keepAlive: true,
      onConnect: async (client) => {
        await client.query(INDEX_SETTING).catch(passRefusal);
      },
    });
    pool.on("error", () => undefined); // an idle connection: the next call uses another one
    return pool;
  }

  #explain(error: unknown): unknown {
    if (error instanceof ServerError) return error;
    const { code, message } = error as { readonly code?: unknown; readonly message?: unknown };
    if (code === CANCELLED_BY_TIMEOUT || /timeout/i.test(String(message))) {
      return new ServerError("unavailable", `${this.location} did not answer within ${this.#options.timeoutMs} ms`);
    }
    if (typeof code === "string" && SQL_STATE.test(code)) {
      if (code.startsWith("28")) return new ServerError("unavailable", `${this.location} refuses the user or password`);
      return new SqlError(code, String(message));
    }
    return error;
  }
}

/** @throws errors that are not SQL errors: the connection is lost */
function passRefusal(error: unknown): void {
  if (isLoss(error)) throw error;
}

async function importDriver(): Promise<typeof import("pg")> {
  try {
    return await import("pg");
  } catch (cause) {
    const text = "stores at postgresql:// need the package pg, which is not installed here; run: npm install pg";
    throw new ServerError("unavailable", text, { cause });
  }
}

/** A statement may be repeated, because all of them are idempotent. */
function isLoss(error: unknown): boolean {
  if (error instanceof ServerError) return false;
  const { code, message } = error as { readonly code?: unknown; readonly message?: unknown };
  if (typeof code === "string") {
    return isSqlState(code) ? AWAY_STATES.test(code) : /^E[A-Z_]+$/.test(code);
  }
  return /connection (?:terminated|ended|error)|client has encountered a connection error|timeout exceeded when trying to connect/i.test(
    String(message),
  );
}

function reasonOf(error: unknown): string {
  const { code, message } = error as { readonly code?: unknown; readonly message?: unknown };
  if (typeof code !== "string") return String(message);
  return isSqlState(code) ? `${code}: ${String(message)}` : code;
}

/** Some system error codes have five letters, too: EPIPE. */
function isSqlState(code: string): boolean {
  return SQL_STATE.test(code) && !/^E[A-Z]{4}$/.test(code);
}

/** Without user and password. */
export function displayAddress(url: string): string {
  if (!URL.canParse(url)) return "the store";
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host}${pathname}`;
}
