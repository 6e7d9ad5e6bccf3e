/**
 * Resizes 8-bit images exactly like Pillow (Resample.c): the same filters, 22-bit weights, and rounding to bytes
 * between the passes. Models were trained on such images. Pure; knows no file format.
 */

/** Rows of interleaved 8-bit channels. */
export interface PixelImage {
  readonly width: number;
  readonly height: number;
  readonly channels: number;
  readonly data: Uint8Array;
}

export type ResampleFilter = "nearest" | "box" | "bilinear" | "hamming" | "bicubic" | "lanczos";

interface Kernel {
  /** Filter radius, in pixels of the smaller image. */
  readonly support: number;
  readonly weight: (x: number) => number;
}

/** Per output position: first source, number of sources, and weights at a fixed stride. */
interface Weights {
  readonly starts: Int32Array;
  readonly counts: Int32Array;
  readonly values: Int32Array;
  readonly stride: number;
}

const WEIGHT_BITS = 22;
const HALF = 1 << (WEIGHT_BITS - 1);
const BICUBIC_A = -0.5;
const LANCZOS_LOBES = 3;

const KERNELS: Readonly<Record<Exclude<ResampleFilter, "nearest">, Kernel>> = {
  box: { support: 0.5, weight: (x) => (x > -0.5 && x <= 0.5 ? 1 : 0) },
  bilinear: { support: 1, weight: (x) => Math.max(0, 1 - Math.abs(x)) },
  hamming: { support: 1, weight: hamming },
  bicubic: { support: 2, weight: bicubic },
  lanczos: { support: LANCZOS_LOBES, weight: lanczos },
};

/** The image in another size; itself when it has that size. */
export function resample(image: PixelImage, width: number, height: number, filter: ResampleFilter): PixelImage {
  if (image.width === width && image.height === height) return image;
  if (filter === "nearest") return resampleNearest(image, width, height);
  const kernel = KERNELS[filter];
  if (isHeightFirst(image, width, height)) return toWidth(toHeight(image, height, kernel), width, kernel);
  return toHeight(toWidth(image, width, kernel), height, kernel);
}

/** Pass order of Pillow since release 13. Intermediate bytes are rounded, so the order matters. */
function isHeightFirst(image: PixelImage, width: number, height: number): boolean {
  const loss = image.height - height;
  return loss > 0 && loss > 2 * (image.width - width);
}

function toWidth(image: PixelImage, width: number, kernel: Kernel): PixelImage {
  return image.width === width ? image : resampleRows(image, weightsOf(image.width, width, kernel), width);
}

function toHeight(image: PixelImage, height: number, kernel: Kernel): PixelImage {
  return image.height === height ? image : resampleColumns(image, weightsOf(image.height, height, kernel), height);
}

function weightsOf(inSize: number, outSize: number, { support, weight }: Kernel): Weights {
  const scale = inSize / outSize;
  const filterScale = Math.max(scale, 1);
  const reach = support * filterScale;
  const stride = Math.ceil(reach) * 2 + 1;
  const starts = new Int32Array(outSize);
  const counts = new Int32Array(outSize);
  const values = new Int32Array(outSize * stride);
  const exact = new Float64Array(stride);
  for (let place = 0; place < outSize; place++) {
    const center = (place + 0.5) * scale;
    const start = Math.max(0, Math.trunc(center - reach + 0.5));
    const count = Math.min(inSize, Math.trunc(center + reach + 0.5)) - start;
    let sum = 0;
    for (let i = 0; i < count; i++) {
      const value = weight((i + start - center + 0.5) * (1 / filterScale));
      exact[i] = value;
      sum += value;
    }
    starts[place] = start;
    counts[place] = count;
    for (let i = 0; i < count; i++) values[place * stride + i] = toFixedPoint((exact[i] ?? 0) / (sum === 0 ? 1 : sum));
  }
  return { starts, counts, values, stride };
}

function toFixedPoint(value: number): number {
  const scaled = value * (1 << WEIGHT_BITS);
  return Math.trunc(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
}

function resampleRows({ width, height, channels, data }: PixelImage, weights: Weights, outWidth: number): PixelImage {
  const out = new Uint8Array(outWidth * height * channels);
  const { starts, counts, values, stride } = weights;
  for (let y = 0; y < height; y++) {
    const row = y * width * channels;
    let at = y * outWidth * channels;
    for (let x = 0; x < outWidth; x++) {
      const first = row + (starts[x] ?? 0) * channels;
      const count = counts[x] ?? 0;
      for (let channel = 0; channel < channels; channel++) {
        out[at++] = weighted(data, first + channel, channels, values, x * stride, count);
      }
    }
  }
  return { width: outWidth, height, channels, data: out };
}

function resampleColumns({ width, channels, data }: PixelImage, weights: Weights, outHeight: number): PixelImage {
  const rowLength = width * channels;
  const out = new Uint8Array(outHeight * rowLength);
  const { starts, counts, values, stride } = weights;
  for (let y = 0; y < outHeight; y++) {
    const first = (starts[y] ?? 0) * rowLength;
    const count = counts[y] ?? 0;
    const to = y * rowLength;
    for (let x = 0; x < rowLength; x++) out[to + x] = weighted(data, first + x, rowLength, values, y * stride, count);
  }
  return { width, height: outHeight, channels, data: out };
}

function weighted(
  data: Uint8Array,
  first: number,
  step: number,
  weights: Int32Array,
  firstWeight: number,
  count: number,
): number {
  let sum = HALF;
  let at = first;
  for (let i = 0; i < count; i++) {
    sum += (data[at] ?? 0) * (weights[firstWeight + i] ?? 0);
    at += step;
  }
  const value = sum >> WEIGHT_BITS;
  return value < 0 ? 0 : value > 255 ? 255 : value;
}

function resampleNearest(
  { width, height, channels, data }: PixelImage,
  outWidth: number,
  outHeight: number,
): PixelImage {
  const columns = nearestIndices(width, outWidth);
  const rows = nearestIndices(height, outHeight);
  const out = new Uint8Array(outWidth * outHeight * channels);
  let at = 0;
  for (const row of rows) {
    for (const column of columns) {
      const from = (row * width + column) * channels;
      for (let channel = 0; channel < channels; channel++) out[at++] = data[from + channel] ?? 0;
    }
  }
  return { width: outWidth, height: outHeight, channels, data: out };
}

/** Adds up steps like Pillow: multiplying would round differently. */
function nearestIndices(inSize: number, outSize: number): Int32Array {
  const step = inSize / outSize;
  const places = new Int32Array(outSize);
  let at = step * 0.5;
  for (let i = 0; i < outSize; i++) {
    places[i] = Math.min(inSize - 1, Math.trunc(at));
    at += step;
  }
  return places;
}

function hamming(x: number): number {
  const distance = Math.abs(x);
  if (distance === 0) return 1;
  if (distance >= 1) return 0;
  const angle = distance * Math.PI;
  return (Math.sin(angle) / angle) * (0.54 + 0.46 * Math.cos(angle));
}

function bicubic(x: number): number {
  const distance = Math.abs(x);
  if (distance < 1) return ((BICUBIC_A + 2) * distance - (BICUBIC_A + 3)) * distance * distance + 1;
  if (distance < 2) return (((distance - 5) * distance + 8) * distance - 4) * BICUBIC_A;
  return 0;
}

function lanczos(x: number): number {
  return x >= -LANCZOS_LOBES && x < LANCZOS_LOBES ? sinc(x) * sinc(x / LANCZOS_LOBES) : 0;
}

function sinc(x: number): number {
  if (x === 0) return 1;
  const angle = x * Math.PI;
  return Math.sin(angle) / angle;
}
