/** Fills a buffer from a position of an open file (POSIX pread may return less than asked). It knows no format. */
import type { FileHandle } from "node:fs/promises";

/** Maximum bytes of one read call; the system splits larger ones anyway. */
const MAX_READ_BYTES: number = 1 << 30;

/** @throws Error naming `file` when it ends before the buffer is full */
export async function readFully(handle: FileHandle, into: Uint8Array, position: number, file: string): Promise<void> {
  let done = 0;
  while (done < into.byteLength) {
    const length = Math.min(into.byteLength - done, MAX_READ_BYTES);
    const { bytesRead } = await handle.read(into, done, length, position + done);
    if (bytesRead === 0) throw new Error(`${file}: ended at byte ${position + done}: it was cut off while in use`);
    done += bytesRead;
  }
}
