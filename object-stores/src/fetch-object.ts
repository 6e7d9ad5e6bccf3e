/**
 * Downloads one object: resumes earlier attempts with ranges (RFC 9110, section 14), and renames the file only after
 * length and hash match. Knows no store and no model.
 */
import { createReadStream } from "node:fs";
import { chmod, type FileHandle, open, rename } from "node:fs/promises";
import { dirname } from "node:path";
import { syncFolder } from "@nereid/server/files/atomic-output";
import { TransientFailure } from "@nereid/server/files/http-exchange";
import { fileError } from "@nereid/server/files/tool-error";
import { withRetries } from "@nereid/server/hub/retry";
import { startContentHash } from "./content-hash.ts";
import type { Checksum, ObjectReply, ObjectStore, StoredObject } from "./object-store.ts";

export interface FetchOptions {
  readonly store: ObjectStore;
  readonly object: StoredObject;
  /** Path of the partial file, and of the verified file, on the same file system. */
  readonly partial: string;
  readonly target: string;
  readonly firstPauseMs: number;
  readonly signal: AbortSignal;
  /** Change in bytes present; negative when bytes were discarded. */
  readonly onBytes: (bytes: number) => void;
  readonly onRetry: (reason: string, pauseMs: number) => void;
}

const READ_BYTES = 1 << 20;
const READ_ONLY = 0o444;

/** @throws ToolError when the object is unavailable or never matches what the store states */
export async function fetchObject(options: FetchOptions): Promise<void> {
  const { object, partial, target, store } = options;
  let received = 0;
  let counted = 0;
  const count = (bytes: number): void => {
    options.onBytes(bytes - counted);
    counted = bytes;
  };
  const retry = {
    signal: options.signal,
    firstPauseMs: options.firstPauseMs,
    onRetry: options.onRetry,
    progress: () => received,
  };
  await withRetries(`${store.url}/${object.path}`, retry, async () => {
    const file = await open(partial, "a+").catch((error: unknown) => {
      throw fileError("write", partial, error);
    });
    try {
      await fillUp(options, file, (bytes, isNew) => {
        if (isNew) received += bytes - counted;
        count(bytes);
      });
      await file.sync();
    } catch (error) {
      throw fileError("write", partial, error);
    } finally {
      await file.close();
    }
  });
  await chmod(partial, READ_ONLY); // models hard-link it: a writer must not change what others read
  await rename(partial, target);
  await syncFolder(dirname(target));
}

type OnLength = (bytes: number, isNew: boolean) => void;

async function fillUp(options: FetchOptions, file: FileHandle, onLength: OnLength): Promise<void> {
  const { object, store, signal } = options;
  let kept = await keptBytes(file, object);
  onLength(kept, false);
  let { checksum } = object;
  if (kept < object.bytes || object.bytes === 0) {
    const reply = await store.open(object, kept, signal);
    try {
      kept = await expectStart(reply.response, kept, file);
      onLength(kept, false);
      checksum ??= reply.checksum;
      await receive(options, reply, file, kept, onLength);
    } finally {
      reply.done();
      await reply.response.body?.cancel().catch(() => undefined);
    }
  }
  if (checksum === undefined) return;
  const found = await digestOf(options.partial, checksum, object.bytes, signal);
  if (found === checksum.hex) return;
  await file.truncate(0); // the content cannot be trusted
  onLength(0, false);
  throw new TransientFailure(`its content is wrong: expected ${checksum.kind} ${checksum.hex}, got ${found}`);
}

/** Bytes from an earlier attempt, unless there are more than the object has. */
async function keptBytes(file: FileHandle, { bytes }: StoredObject): Promise<number> {
  const { size } = await file.stat();
  if (size <= bytes) return size;
  await file.truncate(0);
  return 0;
}

/** Offset of the response's first byte. A store without range support sends everything. */
async function expectStart(response: Response, kept: number, file: FileHandle): Promise<number> {
  if (response.status === 200) {
    if (kept > 0) await file.truncate(0);
    return 0;
  }
  const start = /^bytes (\d+)-/.exec(response.headers.get("content-range") ?? "")?.[1];
  if (response.status === 206 && Number(start) === kept) return kept;
  throw new TransientFailure(
    `asked for bytes from ${kept}, the store answers ${response.status} with ${start ?? "no range"}`,
  );
}

async function receive(
  { object, signal }: FetchOptions,
  { response, alive }: ObjectReply,
  file: FileHandle,
  start: number,
  onLength: OnLength,
): Promise<void> {
  let end = start;
  try {
    for await (const chunk of response.body ?? []) {
      alive();
      if (end + chunk.byteLength > object.bytes) {
        await file.truncate(0);
        throw new TransientFailure(`the store sends more than the ${object.bytes} bytes that it told`);
      }
      await file.appendFile(chunk);
      end += chunk.byteLength;
      onLength(end, true);
    }
  } catch (error) {
    throw transferFailure(error, signal);
  }
  if (end < object.bytes) throw new TransientFailure(`the connection ended after ${end} of ${object.bytes} bytes`);
}

/** A full disk is permanent; a broken connection may be transient. */
function transferFailure(error: unknown, signal: AbortSignal): unknown {
  const isDisk = error instanceof Error && "syscall" in error && ["write", "ftruncate"].includes(String(error.syscall));
  if (signal.aborted || isDisk || error instanceof TransientFailure) return error;
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return new TransientFailure(cause instanceof Error ? cause.message : String(cause), { cause: error });
}

async function digestOf(path: string, { kind }: Checksum, bytes: number, signal: AbortSignal): Promise<string> {
  const hash = startContentHash(kind, bytes);
  for await (const chunk of createReadStream(path, { highWaterMark: READ_BYTES, signal })) {
    hash.update(chunk as Uint8Array);
  }
  return hash.digest();
}
