/**
 * Detaches a buffer, so that its memory is free at once and not after the next garbage collection (ECMA-262,
 * ArrayBuffer.prototype.transfer). New data then reuses pages that are still in the processor's cache.
 */
import { MessageChannel, type MessagePort } from "node:worker_threads";

/** Smaller ones are not worth the way. */
const MIN_BYTES = 16_384;

/** Newer engines can do it; the libraries of types do not know. */
interface Transferable {
  transfer?(newByteLength: number): ArrayBuffer;
}

let nowhere: MessagePort | undefined;

/** Only for bytes without further readers: they are empty afterwards. A view of part of a buffer is left alone. */
export function discardBytes(bytes: Uint8Array): void {
  const { buffer } = bytes;
  if (bytes.length < MIN_BYTES || bytes.length !== buffer.byteLength || !(buffer instanceof ArrayBuffer)) return;
  const { transfer } = buffer as Transferable;
  if (transfer !== undefined) transfer.call(buffer, 0);
  else portToNowhere().postMessage(undefined, [buffer]);
}

/** A message to a port without a peer is dropped. */
function portToNowhere(): MessagePort {
  if (nowhere === undefined) {
    const { port1, port2 } = new MessageChannel();
    port2.close();
    nowhere = port1;
  }
  return nowhere;
}
