/** Start data and replies of the image decoding process. */
import type { ImageProcessing } from "./processor-config.ts";
import type { Json } from "./processor-fields.ts";

export type PixelType = "FP32" | "FP16";

/** The processor's description unparsed: tables of floats would not survive JSON. */
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
  /** Maximum patches of all images of a job. */
  readonly maxPatches: number;
}

export interface ImageResult {
  /** Shape per image; all of a job have the same. For patches and tiles, shape of all images together. */
  readonly shape: readonly number[];
  readonly data: Uint8Array<ArrayBuffer>;
  /** Original height and width of each image. */
  readonly sizes: readonly (readonly [number, number])[];
  /** For patches: frames, rows and columns of each image. */
  readonly grids: readonly (readonly [number, number, number])[];
  /** For tiles: order of patch indices over all tiles; -1 ends a row. */
  readonly order: Int32Array;
  /** For patches and tiles: visual tokens of each image. */
  readonly lengths: readonly number[];
}
