/** The response cache that a server is started with: in its own memory, or in Redis. */
import process from "node:process";
import type { RedisCache } from "../cache/redis-cache.ts";
import type { CacheOptions } from "../config/flags/server-options.ts";
import { invalidArgument } from "../core/server-error.ts";
import type { ServerLog } from "../observe/log.ts";
import { requirePackage } from "../packages/optional-package.ts";
import { ResponseCache } from "../scheduler/cache/response-cache.ts";

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

function createCache(settings: ReadonlyMap<string, string>): ResponseCache {
  const text = settings.get("size") ?? "";
  if (/^[0-9]+$/.test(text) && Number.isSafeInteger(Number(text)) && Number(text) > 0) {
    return new ResponseCache(Number(text));
  }
  throw invalidArgument(`--cache-config local,size= expects a number of bytes, got '${text}'`);
}

/** Its code is loaded for those who use it. */
async function openRedis(settings: ReadonlyMap<string, string>, log: ServerLog): Promise<RedisCache> {
  const load = () => import("../cache/redis-cache.ts");
  const { RedisCache: Cache } = await requirePackage("@redis/client", "--cache-config=redis", load);
  const { parseRedisSettings } = await import("../cache/redis-settings.ts");
  return Cache.open(parseRedisSettings(settings, process.env), log);
}
