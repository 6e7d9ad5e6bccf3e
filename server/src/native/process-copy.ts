/**
 * Copies memory of another process of the same user (process_vm_readv(2)): one copy, without shared memory. An invalid
 * address or an ended process is an error, not a crash. Linux only.
 */
import process from "node:process";
import { type Address, addressOf, lastErrno, type NativeFunction, openLibrary } from "./ffi.ts";

interface CopyCalls {
  readonly read: NativeFunction<[number, BigUint64Array, number, BigUint64Array, number, number], number>;
  readonly strerror: NativeFunction<[number], string>;
}

let calls: CopyCalls | undefined;

/** Fills `target` from `address` of process `pid`. @throws Error with the system's reason */
export function copyFromProcess(pid: number, address: Address, target: Uint8Array): void {
  const { read, strerror } = loadCalls();
  const here = addressOf(target);
  const local = new BigUint64Array(2);
  const remote = new BigUint64Array(2);
  // One call copies less than 2 GiB.
  for (let done = 0; done < target.byteLength; ) {
    const left = BigInt(target.byteLength - done);
    local[0] = here + BigInt(done);
    local[1] = left;
    remote[0] = address + BigInt(done);
    remote[1] = left;
    const copied = read(pid, local, 1, remote, 1, 0);
    if (copied <= 0) throw new Error(`process_vm_readv: ${copied < 0 ? strerror(lastErrno()) : "nothing was copied"}`);
    done += copied;
  }
}

function loadCalls(): CopyCalls {
  if (calls !== undefined) return calls;
  if (process.platform !== "linux") throw new Error("copying from processes needs Linux");
  const libc = openLibrary(null);
  calls = {
    read: libc.func("process_vm_readv", "int64", ["int", "void*", "ulong", "void*", "ulong", "ulong"]),
    strerror: libc.func("strerror", "str", ["int"]),
  };
  return calls;
}
