/**
 * Downloads one file of a hub: resumes earlier runs with ranges (RFC 9110, section 14) and renames the file only after
 * its hash matches. Knows no folders and caches.
 */
import type { Hash } from "node:crypto";
import { type FileHandle, mkdir, open, rename, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { syncFolder } from "../files/atomic-output.ts";
import { TransientFailure } from "../files/http-exchange.ts";
import type { IncomingResponse } from "../files/http-response.ts";
import { fileError } from "../files/tool-error.ts";
import { hashFile, startHash } from "./hash.ts";
import { type HubConnection, networkError, requestHub } from "./http.ts";
import type { HubFile } from "./listing.ts";
import { withRetries } from "./retry.ts";

/** A file to fetch. A plain URL states no hash: its content is not checked. */
export type TransferredFile = Pick<HubFile, "path" | "bytes"> & { readonly hash: HubFile["hash"] | undefined };

export interface TransferOptions {
  readonly connection: HubConnection;
  readonly file: TransferredFile;
  readonly url: string;
  /** Path of the partial file. */
  readonly partial: string;
  /** Path of the verified file, on the same file system. */
  readonly target: string;
  readonly firstPauseMs: number;
  /** Bytes received now; negative when bytes were discarded. */
  readonly onBytes: (bytes: number) => void;
  /** Bytes present from an earlier run. */
  readonly onKept: (bytes: number) => void;
  readonly onRetry: (reason: string, pauseMs: number) => void;
}

/** @throws ToolError when the file is unavailable or never matches what the hub states */
export async function transferFile(options: TransferOptions): Promise<void> {
  const { file, partial, target, connection } = options;
  await mkdir(dirname(partial), { recursive: true });
  await mkdir(dirname(target), { recursive: true });
  let received = 0;
  const retry = {
    signal: connection.signal,
    firstPauseMs: options.firstPauseMs,
    onRetry: options.onRetry,
    progress: () => received,
  };
  let isFirst = true;
  await withRetries(file.path, retry, async () => {
    const output = await open(partial, "a+").catch((error) => {
      throw fileError("write", partial, error);
    });
    try {
      const kept = await keptBytes(output, file);
      if (isFirst) options.onKept(kept);
      isFirst = false;
      await fillUp(options, output, kept, (bytes) => {
        received += bytes;
        options.onBytes(bytes);
      });
      await output.sync();
    } catch (error) {
      throw fileError("write", partial, error);
    } finally {
      await output.close();
    }
  });
  await rename(partial, target);
  await syncFolder(dirname(target));
}

/** Bytes from an earlier run, unless there are more than the file has. */
async function keptBytes(output: FileHandle, file: TransferredFile): Promise<number> {
  const { size } = await output.stat();
  if (size <= file.bytes) return size;
  await output.truncate(0);
  return 0;
}

async function fillUp(
  options: TransferOptions,
  output: FileHandle,
  kept: number,
  onBytes: (bytes: number) => void,
): Promise<void> {
  const { file, partial, connection } = options;
  let hash = startHash(file);
  if (kept > 0) await hashFile(partial, hash, connection.signal, () => undefined);
  let start = kept;
  if (kept < file.bytes) {
    const answer = await requestHub(connection, options.url, kept === 0 ? {} : { range: `bytes=${kept}-` });
    try {
      start = startOf(answer.response, kept);
      if (start !== kept) {
        await output.truncate(0);
        hash = startHash(file);
        onBytes(-kept);
      }
      await receive(options, answer, { output, hash, start, onBytes });
    } finally {
      answer.done();
    }
  }
  const found = hash.digest("hex");
  if (file.hash === undefined || found === file.hash.hex) return;
  await output.truncate(0); // the content cannot be trusted
  onBytes(-file.bytes);
  throw new TransientFailure(`its content is wrong: expected ${file.hash.kind} ${file.hash.hex}, got ${found}`);
}

/** Offset of the response's first byte. A server without range support sends everything. */
function startOf(response: Response, kept: number): number {
  if (response.status === 200) return 0;
  const start = /^bytes (\d+)-/.exec(response.headers.get("content-range") ?? "")?.[1];
  if (response.status === 206 && Number(start) === kept) return kept;
  throw new TransientFailure(
    `asked for bytes from ${kept}, the server answers ${response.status} with ${start ?? "no range"}`,
  );
}

interface Reception {
  readonly output: FileHandle;
  readonly hash: Hash;
  readonly start: number;
  readonly onBytes: (bytes: number) => void;
}

async function receive(
  { file, url, connection }: TransferOptions,
  answer: IncomingResponse,
  to: Reception,
): Promise<void> {
  let end = to.start;
  try {
    for await (const chunk of answer.response.body ?? []) {
      answer.alive();
      if (end + chunk.byteLength > file.bytes) throw await tooLong(to, file);
      await to.output.appendFile(chunk);
      to.hash.update(chunk);
      end += chunk.byteLength;
      to.onBytes(chunk.byteLength);
    }
  } catch (error) {
    throw isDiskError(error) ? error : networkError(error, new URL(url), connection);
  }
  if (end < file.bytes) throw new TransientFailure(`the connection ended after ${end} of ${file.bytes} bytes`);
}

async function tooLong({ output, onBytes }: Reception, file: TransferredFile): Promise<TransientFailure> {
  const { size } = await output.stat();
  await output.truncate(0);
  onBytes(-size);
  return new TransientFailure(`the server sends more than the ${file.bytes} bytes that the file has`);
}

function isDiskError(error: unknown): boolean {
  return error instanceof Error && "syscall" in error && (error.syscall === "write" || error.syscall === "ftruncate");
}

/** Bytes in the partial file. */
export async function partialBytes(path: string): Promise<number> {
  return stat(path).then(
    ({ size }) => size,
    () => 0,
  );
}
