/**
 * A response cache in Redis, shared by several servers. Source: Triton documentation, "Response Cache", Redis;
 * protocol: RESP. Any failure or timeout counts as a miss.
 */
import { readFileSync } from "node:fs";
import { createClient, RESP_TYPES } from "@redis/client";
import { backoffMs } from "../core/backoff.ts";
import { ServerError } from "../core/server-error.ts";
import type { Tensor } from "../core/tensor.ts";
import type { Logger } from "../observe/log.ts";
import type { RemoteCacheStatistics, RemoteResponseCache } from "../scheduler/cache/remote-response-cache.ts";
import { decodeEntry, encodeEntry } from "./cache-entry.ts";
import type { RedisSettings } from "./redis-settings.ts";

const KEY_PREFIX = "nereid:";
/** Redis refuses values above 512 MiB, and computing such a response is faster than fetching it. */
const MAX_VALUE_BYTES = 64 << 20;
/** Maximum bytes of pending writes: more is dropped while Redis is slow. */
const MAX_PENDING_BYTES = 256 << 20;
const RECONNECT = { firstMs: 100, maxMs: 5000 };
/**
 * A connection that is silent so long is closed, also in its handshake, which no command's timeout covers. Pings at half that
 * time keep idle ones.
 */
const MIN_SILENCE_MS = 2000;
const SILENT_ANSWERS = 4;
const US_PER_MS = 1000;

type Client = ReturnType<typeof connect>;

export class RedisCache implements RemoteResponseCache, AsyncDisposable {
  readonly #clients: readonly Client[];
  readonly #log: Logger;
  readonly #where: string;
  readonly #answerTimeoutMs: number;
  #next = 0;
  #numLookups = 0;
  #numHits = 0;
  #numFailures = 0;
  #lookupMs = 0;
  #insertionMs = 0;
  #pendingBytes = 0;
  #isTroubled = false;
  #isClosed = false;

  private constructor(settings: RedisSettings, log: Logger) {
    this.#log = log;
    this.#where = `${settings.host}:${settings.port}`;
    this.#answerTimeoutMs = settings.answerTimeoutMs;
    this.#clients = Array.from({ length: settings.poolSize }, () => connect(settings));
    for (const client of this.#clients) {
      client.on("error", (error: unknown) => this.#troubled(error));
      client.on("ready", () => this.#well());
    }
  }

  /** Waits for the connections within their time limit: the server also runs without Redis. */
  static async open(settings: RedisSettings, log: Logger): Promise<RedisCache> {
    const cache = new RedisCache(settings, log);
    const connecting = cache.#clients.map((client) =>
      client.connect().catch((error: unknown) => cache.#troubled(error)),
    );
    await withinMs(Promise.all(connecting), settings.connectTimeoutMs).catch(() => undefined);
    return cache;
  }

  async lookUp(key: string): Promise<readonly Tensor[] | undefined> {
    const startMs = performance.now();
    this.#numLookups += 1;
    const outputs = await this.#get(key);
    if (outputs !== undefined) this.#numHits += 1;
    this.#lookupMs += performance.now() - startMs;
    return outputs;
  }

  insert(key: string, outputs: readonly Tensor[]): void {
    const bytes = outputs.reduce((sum, { data }) => sum + data.length, 0);
    const client = this.#client();
    if (client === undefined || bytes > MAX_VALUE_BYTES || this.#pendingBytes + bytes > MAX_PENDING_BYTES) {
      this.#numFailures += client === undefined ? 1 : 0;
      return;
    }
    const startMs = performance.now();
    this.#pendingBytes += bytes;
    withinMs(client.set(KEY_PREFIX + key, encodeEntry(outputs)), this.#answerTimeoutMs)
      .catch((error: unknown) => this.#failed(client, error))
      .finally(() => {
        this.#pendingBytes -= bytes;
        this.#insertionMs += performance.now() - startMs;
      });
  }

  statistics(): RemoteCacheStatistics {
    return {
      numLookups: this.#numLookups,
      numHits: this.#numHits,
      numFailures: this.#numFailures,
      lookupUs: Math.floor(this.#lookupMs * US_PER_MS),
      insertionUs: Math.floor(this.#insertionMs * US_PER_MS),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    for (const client of this.#clients) if (client.isOpen) client.destroy();
  }

  async #get(key: string): Promise<readonly Tensor[] | undefined> {
    const client = this.#client();
    if (client === undefined) {
      this.#numFailures += 1;
      return undefined;
    }
    try {
      const value = await withinMs(client.get(KEY_PREFIX + key), this.#answerTimeoutMs);
      return value === null ? undefined : decodeEntry(value);
    } catch (error) {
      this.#failed(client, error);
      return undefined;
    }
  }

  /** The next connection in round-robin order; undefined when none is connected. */
  #client(): Client | undefined {
    for (let tried = 0; tried < this.#clients.length; tried += 1) {
      this.#next = (this.#next + 1) % this.#clients.length;
      const client = this.#clients[this.#next];
      if (client?.isReady === true) return client;
    }
    return undefined;
  }

  #failed(client: Client, error: unknown): void {
    this.#numFailures += 1;
    this.#troubled(error);
    if (error instanceof LateAnswer && client.isReady && !this.#isClosed) this.#replace(client);
  }

  /** A connection without answers may be half open, and each lookup over it waits: lookups miss until there is another. */
  #replace(client: Client): void {
    client.destroy();
    client.connect().catch((error: unknown) => {
      if (!this.#isClosed) this.#troubled(error);
    });
  }

  /** Logged once, until it works again. */
  #troubled(error: unknown): void {
    if (this.#isTroubled) return;
    this.#isTroubled = true;
    const reason = error instanceof Error ? error.message || error.name : String(error);
    this.#log.error(
      "redis_cache",
      `response cache in Redis at ${this.#where}: ${reason}; requests are computed meanwhile`,
    );
  }

  #well(): void {
    if (this.#isTroubled) this.#log.info("redis_cache", `response cache in Redis at ${this.#where}: connected again`);
    this.#isTroubled = false;
  }
}

class LateAnswer extends Error {}

function connect(settings: RedisSettings) {
  const { host, port, user, password, db, connectTimeoutMs, tls } = settings;
  const silenceMs = Math.max(MIN_SILENCE_MS, SILENT_ANSWERS * settings.answerTimeoutMs);
  const socket = {
    host,
    port,
    connectTimeout: connectTimeoutMs,
    socketTimeout: silenceMs,
    reconnectStrategy: (retries: number) => backoffMs(retries + 1, RECONNECT),
  };
  const client = createClient({
    socket: tls === undefined ? socket : { ...socket, ...tlsOptions(tls) },
    ...(user === undefined ? {} : { username: user }),
    ...(password === undefined ? {} : { password }),
    database: db,
    pingInterval: silenceMs / 2,
    disableOfflineQueue: true,
    RESP: 2,
  });
  return client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
}

/** @throws ServerError when a file cannot be read */
function tlsOptions({ certFile, keyFile, caFile, serverName }: NonNullable<RedisSettings["tls"]>) {
  return {
    tls: true as const,
    ...(certFile === undefined ? {} : { cert: read("cert", certFile) }),
    ...(keyFile === undefined ? {} : { key: read("key", keyFile) }),
    ...(caFile === undefined ? {} : { ca: read("cacert", caFile) }),
    ...(serverName === undefined ? {} : { servername: serverName }),
  };
}

function read(setting: string, file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    const text = `--cache-config redis,${setting}: cannot read ${file}`;
    throw new ServerError("invalid_argument", text, { cause: error });
  }
}

/** @throws LateAnswer on a timeout */
async function withinMs<T>(action: Promise<T>, limitMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new LateAnswer(`no answer within ${limitMs} ms`)), limitMs);
  });
  try {
    return await Promise.race([action, late]);
  } finally {
    clearTimeout(timer);
  }
}
