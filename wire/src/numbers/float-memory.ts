/**
 * The memory that the float kernels work in, which threads may share, and the parts of the WebAssembly JavaScript interface
 * (W3C, https://www.w3.org/TR/wasm-js-api-2/) that are used: the types of Node do not declare it.
 */

export interface FloatMemory {
  readonly buffer: ArrayBufferLike;
}

/** Exports of wire/assembly/index.ts; addresses and lengths are in bytes. */
export interface FloatRoutines {
  readonly readEnd: { readonly value: number };
  readonly writeEnd: { readonly value: number };
  fillTables(): void;
  readFloats(at: number, end: number, out: number, max: number): number;
  writeFloats(src: number, count: number, dst: number): number;
}

interface MemoryDescriptor {
  readonly initial: number;
  readonly maximum: number;
  readonly shared: boolean;
}

interface WebAssemblyEngine {
  readonly Memory: new (descriptor: MemoryDescriptor) => FloatMemory;
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (module: object, imports: object) => { readonly exports: FloatRoutines };
}

const PAGE_BYTES = 65_536;
/** Address behind the tables of the kernels (SCALES in wire/assembly/float-tables.ts); what follows is free for others. */
export const FIRST_FREE_BYTE = 69_632;

export const engine: WebAssemblyEngine | undefined = (globalThis as { readonly WebAssembly?: WebAssemblyEngine })
  .WebAssembly;

/** Undefined without WebAssembly, or with less memory than that. Untouched pages take no physical memory. */
export function floatMemory(numBytes: number, isShared: boolean): FloatMemory | undefined {
  const numPages = Math.ceil(numBytes / PAGE_BYTES);
  try {
    return engine && new engine.Memory({ initial: numPages, maximum: numPages, shared: isShared });
  } catch {
    return undefined;
  }
}
