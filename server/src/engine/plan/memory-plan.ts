/**
 * Number of cache blocks of an engine: the request in tokens, bytes or a share of memory, bounded by the memory left
 * after weights and workspaces. Pure numbers. The plan is logged before anything is allocated; an impossible request is
 * refused with its numbers. Both devices count what they need as a list of items.
 */
import { ServerError } from "../../core/server-error.ts";

/** Weights, or one of the workspaces. */
export interface MemoryItem {
  readonly what: string;
  readonly numBytes: number;
}

/** Bytes that the model needs. */
export interface MemoryDemand {
  /** All that is not the cache. */
  readonly items: readonly MemoryItem[];
  readonly bytesPerToken: number;
  readonly blockSize: number;
  /** Tokens in the cache that the longest sequence of the model needs at a time. */
  readonly longestTokens: number;
  readonly maxSequences: number;
  /** Bytes that the encoder of the longest input leaves for one sequence; absent: the model has none. */
  readonly encoderBytes?: number | undefined;
}

/** Bounds that the user gave; the smallest one counts. */
export interface RequestedMemory {
  /** 0 = not said. */
  readonly tokens: number;
  readonly bytes: number;
  /** Share of the memory that is free after weights and workspace. */
  readonly freeFraction: number | undefined;
  /** Size of the host KV cache. */
  readonly hostBytes: number;
}

export interface MemoryPlan {
  readonly numBlocks: number;
  readonly numHostBlocks: number;
  /** Sequences whose encoders' rows fit; undefined for models without an encoder. */
  readonly numEncoders?: number | undefined;
  /** All items and caches. */
  readonly numBytes: number;
  /** For the log. */
  readonly lines: readonly string[];
}

/** Default: at most this share of the free memory, and this many tokens or one full context. */
const DEFAULT_SHARE = 0.25;
const DEFAULT_TOKENS = 32_768;
/** A share of the memory leaves a tenth of it to everybody else, at most this much. */
const MAX_SPARED_BYTES: number = 512 * 2 ** 20;
const MIN_BLOCKS = 2;

/** @throws ServerError with the numbers when it does not fit */
export function planMemory(given: MemoryDemand, requested: RequestedMemory, freeBytes: number): MemoryPlan {
  const numEncoders = numEncodersOf(given, freeBytes);
  const demand = withEncoders(given, numEncoders);
  const { items, bytesPerToken, blockSize } = demand;
  const blockBytes = bytesPerToken * blockSize;
  const itemBytes = sumBytes(items);
  const leftBytes = freeBytes - itemBytes;
  const numBlocks = Math.max(MIN_BLOCKS, Math.floor(chooseTokens(demand, requested, leftBytes) / blockSize));
  const numHostBlocks = Math.floor(requested.hostBytes / blockBytes);
  const cacheBytes = numBlocks * blockBytes;
  const hostBytes = numHostBlocks * blockBytes;
  const parts =
    `${items.map(({ what, numBytes }) => `${what} ${formatMemory(numBytes)}`).join(", ")}, KV cache ` +
    `${formatMemory(cacheBytes)} (${numBlocks} blocks of ${blockSize} tokens, ${formatMemory(bytesPerToken)} a token)` +
    (numHostBlocks > 0 ? `, host KV cache ${formatMemory(hostBytes)} (${numHostBlocks} blocks)` : "");
  const total = itemBytes + cacheBytes + hostBytes;
  if (total > freeBytes) {
    throw new ServerError(
      "unavailable",
      `the model does not fit: ${parts} need ${formatMemory(total)}, ${formatMemory(freeBytes)} are free. ${remedy(itemBytes, freeBytes)}`,
    );
  }
  const lines = [`memory plan: ${parts}; ${formatMemory(total)} of ${formatMemory(freeBytes)} free`];
  const numTokens = numBlocks * blockSize;
  if (numTokens < demand.longestTokens) {
    lines.push(
      `the KV cache holds ${numTokens} tokens, the longest sequence of the model takes ${demand.longestTokens}: longer ones are refused`,
    );
  }
  if (numEncoders !== undefined && numEncoders < demand.maxSequences) {
    lines.push(`rows of ${numEncoders} encoders fit at their longest: as many sequences run at a time, others wait`);
  }
  return { numBlocks, numHostBlocks, numBytes: total, lines, ...(numEncoders === undefined ? {} : { numEncoders }) };
}

/** Rows of encoders take at most a share of the memory, and fit one sequence. */
function numEncodersOf({ items, encoderBytes, maxSequences }: MemoryDemand, freeBytes: number): number | undefined {
  if (encoderBytes === undefined) return undefined;
  const room = DEFAULT_SHARE * (freeBytes - sumBytes(items));
  return Math.max(1, Math.min(maxSequences, Math.floor(room / encoderBytes)));
}

function withEncoders(demand: MemoryDemand, numEncoders: number | undefined): MemoryDemand {
  const { items, encoderBytes } = demand;
  if (numEncoders === undefined || encoderBytes === undefined) return demand;
  const item = { what: `rows of ${numEncoders} encoders`, numBytes: numEncoders * encoderBytes };
  return { ...demand, items: [...items, item] };
}

function chooseTokens(demand: MemoryDemand, requested: RequestedMemory, leftBytes: number): number {
  const { bytesPerToken, longestTokens, maxSequences } = demand;
  const bounds: number[] = [];
  if (requested.tokens > 0) bounds.push(requested.tokens);
  if (requested.bytes > 0) bounds.push(requested.bytes / bytesPerToken);
  if (requested.freeFraction !== undefined) {
    const sparedBytes = Math.min(MAX_SPARED_BYTES, leftBytes / 10);
    const shareBytes = Math.min(requested.freeFraction * leftBytes, leftBytes - requested.hostBytes - sparedBytes);
    // Beyond twice the tokens of all sequences, blocks would hardly be reused.
    bounds.push(Math.min(shareBytes / bytesPerToken, 2 * maxSequences * longestTokens));
  }
  if (bounds.length > 0) return Math.min(...bounds);
  return Math.min((DEFAULT_SHARE * leftBytes) / bytesPerToken, Math.max(longestTokens, DEFAULT_TOKENS));
}

function remedy(itemBytes: number, freeBytes: number): string {
  return itemBytes > freeBytes
    ? "Narrower weights take less (weight_type), as do shorter steps (max_num_tokens)"
    : "Ask for a smaller cache (kv_cache_memory_bytes, max_tokens_in_paged_kv_cache, kv_cache_host_memory_bytes) or a narrower one (kv_cache_type)";
}

export function sumBytes(items: readonly MemoryItem[]): number {
  return items.reduce((sum, { numBytes }) => sum + numBytes, 0);
}

export interface CacheRoom {
  readonly items: readonly MemoryItem[];
  /** Left free beside the items and the cache. */
  readonly reserveBytes: number;
  readonly blockBytes: number;
}

/** Blocks of a cache that takes `share` of the memory left after the items; the number asked for, where it is not 0. */
export function fitBlocks(
  { items, reserveBytes, blockBytes }: CacheRoom,
  { numBlocks, share }: { readonly numBlocks: number; readonly share: number },
  freeBytes: number,
): { readonly wanted: number; readonly fits: boolean } {
  const room = Math.floor((freeBytes - sumBytes(items) - reserveBytes) * (numBlocks > 0 ? 1 : share));
  const affordable = Math.floor(room / blockBytes);
  const wanted = numBlocks > 0 ? numBlocks : affordable;
  return { wanted, fits: affordable >= MIN_BLOCKS && wanted <= affordable };
}

export function formatMemory(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? Math.ceil(value) : value.toFixed(value < 10 ? 2 : 1)} ${units[unit]}`;
}
