/**
 * `--cache-config=redis,<setting>=<value>` and the two environment variables, as a checked object. Source: Triton's
 * redis_cache README. Pure.
 */
import type { Environment } from "../core/environment.ts";
import { invalidArgument, type ServerError } from "../core/server-error.ts";

export interface RedisSettings {
  readonly host: string;
  readonly port: number;
  readonly user: string | undefined;
  readonly password: string | undefined;
  readonly db: number;
  readonly connectTimeoutMs: number;
  /** Timeout of a response. */
  readonly answerTimeoutMs: number;
  readonly poolSize: number;
  /** Undefined: no TLS. */
  readonly tls:
    | {
        readonly certFile: string | undefined;
        readonly keyFile: string | undefined;
        readonly caFile: string | undefined;
        readonly serverName: string | undefined;
      }
    | undefined;
}

const DEFAULT_PORT = 6379;
const DEFAULT_TIMEOUT_MS = 1000;
const MAX_TIMEOUT_MS = 600_000;
const MAX_POOL = 64;
const MAX_DB = 1_000_000;
const KNOWN: ReadonlySet<string> = new Set(
  "host,port,user,password,db,connect_timeout,socket_timeout,pool_size,wait_timeout,tls_enabled,cert,key,cacert,sni".split(
    ",",
  ),
);

/** @throws ServerError invalid_argument naming the setting */
export function parseRedisSettings(settings: ReadonlyMap<string, string>, env: Environment): RedisSettings {
  const unknown = [...settings.keys()].find((name) => !KNOWN.has(name));
  if (unknown !== undefined) throw wrong(unknown, `one of ${[...KNOWN].join(", ")}`, "a name that is not known");
  const text = (name: string): string | undefined => settings.get(name) || undefined;
  const host = text("host");
  if (host === undefined) throw wrong("host", "the name of a Redis server", "none");
  const integer = (name: string, byDefault: number, min: number, max: number): number => {
    const given = text(name);
    if (given === undefined) return byDefault;
    const value = Number(given);
    if (/^\d+$/.test(given) && value >= min && value <= max) return value;
    throw wrong(name, `a number from ${min} to ${max}`, `'${given}'`);
  };
  const wait = integer("wait_timeout", DEFAULT_TIMEOUT_MS, 1, MAX_TIMEOUT_MS);
  return {
    host,
    port: integer("port", DEFAULT_PORT, 1, 65_535),
    user: text("user") ?? (env.TRITONCACHE_REDIS_USERNAME || undefined),
    password: text("password") ?? (env.TRITONCACHE_REDIS_PASSWORD || undefined),
    db: integer("db", 0, 0, MAX_DB),
    connectTimeoutMs: integer("connect_timeout", DEFAULT_TIMEOUT_MS, 1, MAX_TIMEOUT_MS),
    answerTimeoutMs: Math.min(wait, integer("socket_timeout", wait, 1, MAX_TIMEOUT_MS)),
    poolSize: integer("pool_size", 1, 1, MAX_POOL),
    tls: isTrue(text("tls_enabled"))
      ? { certFile: text("cert"), keyFile: text("key"), caFile: text("cacert"), serverName: text("sni") }
      : undefined,
  };
}

function isTrue(text: string | undefined): boolean {
  if (text === undefined || text === "false" || text === "0") return false;
  if (text === "true" || text === "1") return true;
  throw wrong("tls_enabled", "true or false", `'${text}'`);
}

/** Errors never quote passwords. */
function wrong(name: string, expected: string, got: string): ServerError {
  return invalidArgument(`--cache-config redis,${name}: expected ${expected}, got ${got}`);
}
