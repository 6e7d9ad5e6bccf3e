/** What the process that decodes images is told at its start, and what it answers. */
import type { ImageProcessing } from "./processor-config.ts";
import type { Json } from "./processor-fields.ts";

export type PixelType = "FP32" | "FP16";

/** The processor as it is written: tables of floats would not survive JSON. */
export interface ImageData {
  readonly fields: readonly (readonly [string, Json])[];
  readonly where: string;
  readonly pixelType: PixelType;
  readonly maxPixels: number;
  readonly maxPatches: number;
}

export interface JobSettings {
  readonly processing: ImageProcessing;
  readonly pixelType: PixelType;
  readonly maxPixels: number;
  /** Of all images of a job, where they become patches or tiles. */
  readonly maxPatches: number;
}

export interface ImageResult {
  /** Of one image; all of a job have the same. Of patches and tiles: of all images one after the other. */
  readonly shape: readonly number[];
  readonly data: Uint8Array<ArrayBuffer>;
  /** Height and width of each image as it came. */
  readonly sizes: readonly (readonly [number, number])[];
  /** Of patches: frames, rows and columns of each image. */
  readonly grids: readonly (readonly [number, number, number])[];
  /** Of tiles: which patches of all of them are read, in order; -1 is the end of a row. */
  readonly order: Int32Array;
  /** Of patches and tiles: visual tokens of each image. */
  readonly lengths: readonly number[];
}
