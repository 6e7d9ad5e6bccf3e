/**
 * Target sizes of images by the rules of Hugging Face's image processors (transformers, image_transforms and
 * smart_resize). Pure arithmetic.
 */

export interface Size {
  readonly width: number;
  readonly height: number;
}

export type SizeRule =
  | { readonly kind: "exact"; readonly width: number; readonly height: number }
  /** The shorter side becomes `shortest`, unless the longer one would exceed `longest`. */
  | { readonly kind: "shortest"; readonly shortest: number; readonly longest: number | undefined }
  | { readonly kind: "longest"; readonly longest: number }
  /** As large as fits into both. */
  | { readonly kind: "within"; readonly width: number; readonly height: number }
  /** Multiples of `factor` near the image's own size, with a number of pixels within bounds. */
  | { readonly kind: "pixels"; readonly min: number; readonly max: number; readonly factor: number };

/** Sides never become 0, even for extreme aspect ratios. */
export function sizeAfter(rule: SizeRule, image: Size): Size {
  const { width, height } = sizeBy(rule, image);
  return { width: Math.max(1, width), height: Math.max(1, height) };
}

function sizeBy(rule: SizeRule, { width, height }: Size): Size {
  switch (rule.kind) {
    case "exact":
      return { width: rule.width, height: rule.height };
    case "shortest":
      return byShortest(width, height, rule.shortest, rule.longest);
    case "longest":
      return width >= height
        ? { width: rule.longest, height: Math.trunc((rule.longest * height) / width) }
        : { width: Math.trunc((rule.longest * width) / height), height: rule.longest };
    case "within": {
      const scale = Math.min(rule.height / height, rule.width / width);
      return { width: Math.trunc(width * scale), height: Math.trunc(height * scale) };
    }
    case "pixels":
      return byPixels(width, height, rule);
  }
}

function byShortest(width: number, height: number, shortest: number, longest: number | undefined): Size {
  const [short, long] = width <= height ? [width, height] : [height, width];
  let [newShort, newLong] = [shortest, Math.trunc((shortest * long) / short)];
  if (longest !== undefined && newLong > longest) {
    [newShort, newLong] = [Math.trunc((longest * newShort) / newLong), longest];
  }
  return width <= height ? { width: newShort, height: newLong } : { width: newLong, height: newShort };
}

function byPixels(
  width: number,
  height: number,
  { min, max, factor }: { readonly min: number; readonly max: number; readonly factor: number },
): Size {
  let newHeight = roundHalfEven(height / factor) * factor;
  let newWidth = roundHalfEven(width / factor) * factor;
  if (newHeight * newWidth > max) {
    const beta = Math.sqrt((height * width) / max);
    newHeight = Math.max(factor, Math.floor(height / beta / factor) * factor);
    newWidth = Math.max(factor, Math.floor(width / beta / factor) * factor);
  } else if (newHeight * newWidth < min) {
    const beta = Math.sqrt(min / (height * width));
    newHeight = Math.ceil((height * beta) / factor) * factor;
    newWidth = Math.ceil((width * beta) / factor) * factor;
  }
  return { width: newWidth, height: newHeight };
}

/** Rounds half to even, as in Python. */
function roundHalfEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  if (rest !== 0.5) return Math.round(value);
  return floor % 2 === 0 ? floor : floor + 1;
}
