/** The response cache that a server is started with: in its own memory, or in Redis. */
import process from "node:process";
import type { RedisCache } from "../cache/redis-cache.ts";
import type { CacheOptions } from "../config/flags/server-options.ts";
import { invalidArgument, ServerError } from "../core/server-error.ts";
import type { ServerLog } from "../observe/log.ts";
import { requirePackage } from "../packages/optional-package.ts";
import { ResponseCache } from "../scheduler/cache/response-cache.ts";

const NO_CACHE = "Failed to initialize LocalCache: ";

/** At most one of them. */
export interface ResponseCaches {
  readonly cache: ResponseCache | undefined;
  readonly remoteCache: RedisCache | undefined;
}

/** @throws ServerError for settings that make no sense */
export async function openCaches({ settings }: CacheOptions, log: ServerLog): Promise<ResponseCaches> {
  const local = settings.get("local");
  const redis = settings.get("redis");
  return {
    cache: local === undefined ? undefined : createCache(local),
    remoteCache: redis === undefined ? undefined : await openRedis(redis, log),
  };
}

/** As std::stoull reads a number; text behind its digits is ignored. Errors have the texts of Triton's local cache. */
function createCache(settings: ReadonlyMap<string, string>): ResponseCache {
  const text = settings.get("size");
  if (text === undefined) throw invalidArgument(`${NO_CACHE}config didn't contain a valid 'size' field.`);
  const digits = /^\s*\+?(\d+)/.exec(text)?.[1];
  if (digits === undefined) {
    throw new ServerError("internal", `${NO_CACHE}stoull: expected a number of bytes as size, got '${text}'`);
  }
  const bytes = Number(digits);
  if (bytes > 0 && Number.isSafeInteger(bytes)) return new ResponseCache(bytes);
  const limit = Number.MAX_SAFE_INTEGER;
  const reason = `failed to allocate buffer: expected a size from 1 to ${limit} bytes, got '${text}'`;
  throw new ServerError("internal", NO_CACHE + reason);
}

/** Its code is loaded for those who use it. */
async function openRedis(settings: ReadonlyMap<string, string>, log: ServerLog): Promise<RedisCache> {
  const load = () => import("../cache/redis-cache.ts");
  const { RedisCache: Cache } = await requirePackage("@redis/client", "--cache-config=redis", load);
  const { parseRedisSettings } = await import("../cache/redis-settings.ts");
  return Cache.open(parseRedisSettings(settings, process.env), log);
}
