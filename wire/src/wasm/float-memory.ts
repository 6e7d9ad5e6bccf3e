/** The memory of the kernels for floats, which threads may share, and what is used of the engine that runs them. */
import { TABLES } from "./float-tables.ts";

export interface FloatMemory {
  readonly buffer: ArrayBufferLike;
}

export interface FloatRoutines {
  /** What a routine leaves behind. */
  readonly register: { readonly value: number };
  readFloats(at: number, end: number, out: number, max: number): number;
  writeFloats(src: number, count: number, dst: number): number;
}

interface MemoryDescriptor {
  readonly initial: number;
  readonly maximum: number;
  readonly shared: boolean;
}

/** The libraries of types that know it belong to browsers. */
interface Engine {
  readonly Memory: new (descriptor: MemoryDescriptor) => FloatMemory;
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (module: object, imports: object) => { readonly exports: FloatRoutines };
}

export const PAGE_BYTES = 65_536;
/** Who divides a memory among kernels and others may give away what is between this and the last page. */
export const FIRST_FREE_BYTE: number = TABLES.end;

export const engine: Engine | undefined = (globalThis as { readonly WebAssembly?: Engine }).WebAssembly;

/** Undefined where there is none, or not so much. Pages that nobody touches take no memory. */
export function floatMemory(numBytes: number, isShared: boolean): FloatMemory | undefined {
  const numPages = Math.ceil(numBytes / PAGE_BYTES);
  try {
    return engine && new engine.Memory({ initial: numPages, maximum: numPages, shared: isShared });
  } catch {
    return undefined;
  }
}
