/**
 * Features of sound for Whisper: logarithms of the energy in mel bands, equal to those of WhisperFeatureExtractor. Sources: Radford et
 * al. 2022, section 2.2; transformers, feature_extraction_whisper.py and audio_utils.py; Slaney 1998, "Auditory Toolbox".
 */
import { setImmediate } from "node:timers/promises";
import { FourierTransform } from "./fourier.ts";

export interface MelShape {
  readonly numMels: number;
  readonly sampleRate: number;
  /** Samples of a transform, and from one frame to the next. */
  readonly fftLength: number;
  readonly hopLength: number;
}

/** Pairs of frames between two turns of the event loop. */
const PAIRS_A_TURN = 64;
const FLOOR = 1e-10;
/** Range below the loudest band, in factors of ten. */
const RANGE = 8;
const MAX_FREQUENCY = 8000;

export class LogMel {
  readonly #shape: MelShape;
  readonly #window: Float64Array;
  readonly #filters: readonly Float64Array[];
  readonly #fourier: FourierTransform;

  constructor(shape: MelShape) {
    this.#shape = shape;
    const { fftLength } = shape;
    this.#window = Float64Array.from(
      { length: fftLength },
      (_, i) => 0.5 - 0.5 * Math.cos((2 * Math.PI * i) / fftLength),
    );
    this.#filters = melFilters(shape);
    this.#fourier = new FourierTransform(fftLength);
  }

  /** [numFrames, numMels] of samples that are cut or filled with silence to that many frames. */
  async features(samples: Float32Array, numFrames: number): Promise<Float32Array> {
    const { numMels, hopLength, fftLength } = this.#shape;
    const whole = new Float32Array(numFrames * hopLength);
    whole.set(samples.subarray(0, whole.length));
    const values = new Float32Array(numFrames * numMels);
    const [re, im] = [new Float64Array(fftLength), new Float64Array(fftLength)];
    for (let frame = 0; frame < numFrames; frame += 2) {
      if (frame % (2 * PAIRS_A_TURN) === 0 && frame > 0) await setImmediate();
      // Two real frames are one complex transform.
      this.#fill(whole, frame, re);
      this.#fill(whole, frame + 1, im);
      this.#fourier.transform(re, im);
      const pair = powersOf(re, im);
      for (const [i, powers] of pair.entries()) if (frame + i < numFrames) this.#write(powers, frame + i, values);
    }
    return scaled(values);
  }

  /** The frame's samples under the window; those beyond the ends are mirrored. */
  #fill(samples: Float32Array, frame: number, into: Float64Array): void {
    const { fftLength, hopLength } = this.#shape;
    const first = frame * hopLength - fftLength / 2;
    const last = samples.length - 1;
    for (let i = 0; i < fftLength; i++) {
      const at = Math.abs(first + i);
      into[i] = (samples[at > last ? 2 * last - at : at] ?? 0) * (this.#window[i] ?? 0);
    }
  }

  #write(powers: Float64Array, frame: number, values: Float32Array): void {
    const { numMels } = this.#shape;
    for (const [mel, filter] of this.#filters.entries()) {
      let sum = 0;
      for (let bin = 0; bin < filter.length; bin++) sum += (filter[bin] ?? 0) * (powers[bin] ?? 0);
      values[frame * numMels + mel] = Math.log10(Math.max(FLOOR, sum));
    }
  }
}

/** Energies of the two real signals whose sum, the second turned by 90 degrees, was transformed. */
function powersOf(re: Float64Array, im: Float64Array): readonly [Float64Array, Float64Array] {
  const { length } = re;
  const numBins = length / 2 + 1;
  const [first, second] = [new Float64Array(numBins), new Float64Array(numBins)];
  for (let k = 0; k < numBins; k++) {
    const mirror = (length - k) % length;
    const [a, b, c, d] = [re[k] ?? 0, im[k] ?? 0, re[mirror] ?? 0, im[mirror] ?? 0];
    first[k] = ((a + c) ** 2 + (b - d) ** 2) / 4;
    second[k] = ((b + d) ** 2 + (a - c) ** 2) / 4;
  }
  return [first, second];
}

function scaled(values: Float32Array): Float32Array {
  const most = values.reduce((largest, value) => Math.max(largest, value), Number.NEGATIVE_INFINITY);
  return values.map((value) => (Math.max(value, most - RANGE) + 4) / 4);
}

/** Triangles over [fftLength / 2 + 1] bins, of equal area. */
export function melFilters({ numMels, sampleRate, fftLength }: MelShape): readonly Float64Array[] {
  const numBins = fftLength / 2 + 1;
  const top = melOf(MAX_FREQUENCY);
  const edges = Array.from({ length: numMels + 2 }, (_, i) => hertzOf((top * i) / (numMels + 1)));
  return Array.from({ length: numMels }, (_, mel) => {
    const [low = 0, middle = 0, high = 0] = edges.slice(mel, mel + 3);
    return Float64Array.from({ length: numBins }, (_, bin) => {
      const frequency = (bin * Math.floor(sampleRate / 2)) / (numBins - 1);
      const height = Math.min((frequency - low) / (middle - low), (high - frequency) / (high - middle));
      return (Math.max(0, height) * 2) / (high - low);
    });
  });
}

/** Linear below 1000 Hz, logarithmic above. */
function melOf(hertz: number): number {
  return hertz < 1000 ? (3 * hertz) / 200 : 15 + (Math.log(hertz / 1000) * 27) / Math.log(6.4);
}

function hertzOf(mel: number): number {
  return mel < 15 ? (200 * mel) / 3 : 1000 * Math.exp(((mel - 15) * Math.log(6.4)) / 27);
}
