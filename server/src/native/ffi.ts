/**
 * The foreign function interface: the only importer of koffi, whose stacks it sizes first. Knows no library.
 * Rules for callers. Keep a reference to an object until the call, or C's last use of its address, is over. Free
 * foreign memory only after its views are dropped. Never block in a synchronous call on another thread that calls back
 * into JavaScript.
 */
import koffi, { type LibraryHandle, type TypeObject } from "koffi";

/** Native stack sizes: by default asynchronous calls get 128 KiB, on which compilers and graph optimisers crash. */
const STACK_BYTES: number = 8 * 1024 * 1024;
const HEAP_BYTES: number = 1024 * 1024;
/** Calls that may be queued at once; the default of 256 throws under load. */
const MAX_ASYNC_CALLS = 4096;

koffi.config({
  sync_stack_size: STACK_BYTES,
  sync_heap_size: HEAP_BYTES,
  async_stack_size: STACK_BYTES,
  async_heap_size: HEAP_BYTES,
  max_async_calls: MAX_ASYNC_CALLS,
});

/**
 * Libraries are never unloaded: koffi unloads one whose handle is collected, even while its function addresses are in
 * use.
 */
const loaded: LibraryHandle[] = [];

const neverUnloaded = new Set<LibraryHandle>();

const memcpy = koffi.load(null).func("memcpy", "void", ["void*", "void*", "size_t"]);

/** An address in this process. */
export type Address = bigint;
/** Values for pointer parameters; a view must stay referenced for as long as C uses it. */
export type Pointer = Address | ArrayBufferView | null;
/** A C type by its name ("int", "size_t", "void*", "str", ...), or a structure made by `structType`. */
export type CType = string | StructType;
declare const STRUCT: unique symbol;
export interface StructType {
  readonly [STRUCT]: true;
}

/** A C function. `async` runs it on libuv's thread pool: its arguments must stay referenced until the callback. */
export interface NativeFunction<Args extends unknown[], Result> {
  (...args: Args): Result;
  async(...args: [...Args, (error: unknown, result: Result) => void]): void;
}

export interface NativeLibrary {
  /** Null: the program and its loaded libraries, including the C library. */
  readonly path: string | null;
  /** @throws Error when the library has no such function */
  func<Args extends unknown[], Result>(
    name: string,
    result: CType,
    parameters: readonly CType[],
  ): NativeFunction<Args, Result>;
  has(name: string): boolean;
  /** Address of a symbol. @throws Error when the library does not export it */
  symbol(name: string): Address;
}

/**
 * Loads a shared library for the life of the process. Addresses from its tables do not keep its handle alive, so the
 * handle is kept here. @throws Error with the reason of the dynamic linker
 */
export function openLibrary(path: string | null): NativeLibrary {
  const handle = koffi.load(path);
  neverUnloaded.add(handle);
  loaded.push(handle);
  return {
    path,
    func: <Args extends unknown[], Result>(name: string, result: CType, parameters: readonly CType[]) =>
      handle.func(name, toKoffi(result), parameters.map(toKoffi)) as NativeFunction<Args, Result>,
    has: (name) => hasSymbol(handle, name),
    symbol: (name) => koffi.address(handle.symbol(name)),
  };
}

/** The function at an address, for example from a function table. */
export function functionAt<Args extends unknown[], Result>(
  address: Address,
  result: CType,
  parameters: readonly CType[],
): NativeFunction<Args, Result> {
  const prototype = koffi.proto(toKoffi(result), parameters.map(toKoffi));
  return koffi.decode(address, prototype) as NativeFunction<Args, Result>;
}

/** A JavaScript function that C may call. */
export interface Callback {
  readonly address: Address;
  /** Call only after C has dropped the address. */
  release(): void;
}

/** `work` must not throw. A call from another thread blocks that thread until the event loop has run it. */
export function callback<Args extends unknown[]>(
  result: CType,
  parameters: readonly CType[],
  work: (...args: Args) => void,
): Callback {
  const address = koffi.register(work, koffi.pointer(koffi.proto(toKoffi(result), parameters.map(toKoffi))));
  return { address, release: () => koffi.unregister(address) };
}

/** A C structure, for passing and returning by value. Names are global to the process. */
export function structType(name: string, members: Readonly<Record<string, CType>>): StructType {
  const entries = Object.entries(members).map(([key, type]) => [key, toKoffi(type)] as const);
  return koffi.struct(name, Object.fromEntries(entries)) as unknown as StructType;
}

/** Address of a view's bytes. The view must outlive every use of the address. */
export function addressOf(view: ArrayBufferView): Address {
  return koffi.address(view);
}

/** A view of foreign memory, without a copy. The memory must outlive it; it must not be passed to another thread. */
export function viewMemory(address: Address, byteLength: number): Uint8Array {
  return new Uint8Array(koffi.view(address, byteLength));
}

/** Copies foreign memory into `target`. Ten times cheaper than a view for small memory. */
export function copyFromMemory(target: Uint8Array, address: Address): void {
  if (target.byteLength > 0) memcpy(target, address, target.byteLength);
}

/** `errno` of the latest synchronous call. Only valid directly after a failed call. */
export function lastErrno(): number {
  return koffi.errno();
}

/** Reads a NUL-terminated UTF-8 string. */
export function readCString(address: Address): string {
  return koffi.decode.string(address);
}

/** A NUL-terminated UTF-8 copy of a text, for addresses that C keeps. */
export function cString(text: string): Uint8Array {
  return Buffer.from(`${text}\0`, "utf8");
}

function toKoffi(type: CType): string | TypeObject {
  return type as string | TypeObject;
}

function hasSymbol(handle: LibraryHandle, name: string): boolean {
  try {
    handle.symbol(name);
    return true;
  } catch {
    return false;
  }
}
