/** A tensor in the memory of a device, and the layout of many of them in one allocation. Knows no model. */
import type { DevicePointer } from "./kernel-stream.ts";

export type CudaType = "f32" | "bf16" | "f16" | "e4m3" | "i8" | "i32" | "int4" | "mxfp4";

export const CUDA_TYPE_BYTES: Readonly<Record<CudaType, number>> = {
  f32: 4,
  bf16: 2,
  f16: 2,
  e4m3: 1,
  i8: 1,
  i32: 4,
  int4: 0.5,
  mxfp4: 0.5,
};

/** Groups of inputs that share a scale in an INT4 matrix. */
export interface Int4Groups {
  readonly groupSize: number;
  /** Whether each group has a zero of its own. */
  readonly hasZeros: boolean;
  /** Whether inputs are multiplied by numbers of their own first. */
  readonly hasInputScales: boolean;
}

export interface CudaTensor {
  readonly address: DevicePointer;
  readonly type: CudaType;
  /** Outermost first; rows lie one behind the other. */
  readonly shape: readonly number[];
  /** f32 [rows]: scales of the rows of an 8-bit matrix. INT4: the scales of all groups. MXFP4: u8, one for 32 inputs. */
  readonly scales?: DevicePointer | undefined;
  /** Zero points of the groups of an INT4 matrix. */
  readonly zeros?: DevicePointer | undefined;
  /** f32 [columns]: what inputs of an INT4 matrix are multiplied by first. */
  readonly inputScales?: DevicePointer | undefined;
  /** Inputs that share a scale, of an INT4 matrix. */
  readonly groupSize?: number | undefined;
}

/** Alignment of every tensor of an arena: more than vector loads and tensor maps (TMA) require. */
const ALIGNMENT = 256;

export function cudaTensorBytes(type: CudaType, shape: readonly number[]): number {
  return CUDA_TYPE_BYTES[type] * shape.reduce((product, size) => product * size, 1);
}

/** Offsets of the sizes when they are stored one behind the other, and the end of all. */
export function layOut(sizes: readonly number[]): { readonly offsets: readonly number[]; readonly numBytes: number } {
  let end = 0;
  const offsets = sizes.map((size) => {
    const offset = end;
    end = Math.ceil((offset + size) / ALIGNMENT) * ALIGNMENT;
    return offset;
  });
  return { offsets, numBytes: end };
}
