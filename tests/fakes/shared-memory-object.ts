/** A named object of shared memory, as another process would make one. Removed when disposed of. */
import { closeSync, ftruncateSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import process from "node:process";

/** The folder of Linux for shared memory objects. */
const FOLDER = "/dev/shm";
let made = 0;

export class SharedMemoryObject implements Disposable {
  /** Without a slash in front. */
  readonly name: string;
  readonly path: string;

  constructor(content: Uint8Array | number) {
    made += 1;
    this.name = `nereid_test_${process.pid}_${made}`;
    this.path = `${FOLDER}/${this.name}`;
    writeFileSync(this.path, typeof content === "number" ? "" : content);
    if (typeof content === "number") this.resize(content);
  }

  get key(): string {
    return `/${this.name}`;
  }

  read(): Buffer {
    return readFileSync(this.path);
  }

  /** Pages that nobody wrote take no memory. */
  resize(numBytes: number): void {
    const descriptor = openSync(this.path, "r+");
    ftruncateSync(descriptor, numBytes);
    closeSync(descriptor);
  }

  /** How often a process has mapped it; this one by default. */
  mappings(pid: number = process.pid): number {
    return readFileSync(`/proc/${pid}/maps`, "utf8")
      .split("\n")
      .filter((line) => line.includes(this.path)).length;
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { force: true });
  }
}
