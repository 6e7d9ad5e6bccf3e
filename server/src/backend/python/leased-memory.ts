/** Data that a process leaves in its own memory for the server to copy out: one copy, and no trust in what the process says. */
import { constants } from "node:buffer";
import { copyFromProcess } from "../../native/process-copy.ts";

/** Value at a known address of the process, which proves that the server can read its memory. */
const PROBE: Buffer = Buffer.from("nereid-probe");

export class LeasedMemory {
  readonly #pid: number | undefined;
  #copied: number[] = [];
  #isGone = false;

  constructor(pid: number | undefined) {
    this.#pid = pid;
  }

  /** True when the system allows the server to look into the process. */
  probe(address: bigint): boolean {
    const found = Buffer.alloc(PROBE.length);
    try {
      this.#copy(address, found);
    } catch {
      return false;
    }
    return found.equals(PROBE);
  }

  /** @throws RangeError when the data cannot be had */
  copy(lease: number, address: bigint, byteLength: number): Buffer {
    if (byteLength > constants.MAX_LENGTH) {
      throw new RangeError(`a tensor of ${byteLength} bytes, the limit is ${constants.MAX_LENGTH}`);
    }
    const data = Buffer.allocUnsafeSlow(byteLength);
    this.#copy(address, data);
    this.#copied.push(lease);
    return data;
  }

  /** Regions taken since the last call: the process may reuse them. */
  takeCopied(): readonly number[] {
    if (this.#copied.length === 0) return this.#copied;
    const copied = this.#copied;
    this.#copied = [];
    return copied;
  }

  /** The process has ended: its number may belong to another one soon. */
  forget(): void {
    this.#isGone = true;
  }

  #copy(address: bigint, target: Buffer): void {
    if (this.#pid === undefined || this.#isGone) throw new RangeError("the process has ended");
    try {
      copyFromProcess(this.#pid, address, target);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new RangeError(`cannot copy ${target.length} bytes from process ${this.#pid}: ${reason}`);
    }
  }
}
