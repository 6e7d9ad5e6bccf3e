/**
 * Samples at another rate, by a windowed sinc below the lower of both Nyquist frequencies. Source: Smith, "Digital Audio
 * Resampling", band-limited interpolation; Kaiser 1974 for the window.
 */
import { setImmediate } from "node:timers/promises";

/** Zero crossings of the sinc on each side, and the shape of its window: some 80 dB of attenuation. */
const NUM_CROSSINGS = 24;
const KAISER_BETA = 8;
/** Filters for one rate; more are refused, as their memory would grow with what a file says. */
const MAX_PHASES = 1280;
/** Samples between two turns of the event loop. */
const SAMPLES_A_TURN = 16_384;

/** @throws Error for rates without a small common ratio */
export async function resample(samples: Float32Array, from: number, to: number): Promise<Float32Array> {
  if (from === to) return samples;
  const common = gcd(from, to);
  const [numPhases, step] = [to / common, from / common];
  if (numPhases > MAX_PHASES)
    throw new Error(`expected a usual sample rate, such as 8000, 16000, 22050, 44100 or 48000, got ${from}`);
  const cutoff = Math.min(1, to / from);
  const half = Math.ceil(NUM_CROSSINGS / cutoff);
  const filters = Array.from({ length: numPhases }, (_, phase) => filterOf(phase / numPhases, cutoff, half));
  const out = new Float32Array(Math.ceil((samples.length * to) / from));
  for (let i = 0; i < out.length; i++) {
    if (i % SAMPLES_A_TURN === 0 && i > 0) await setImmediate();
    const place = i * step;
    const filter = filters[place % numPhases] ?? new Float64Array(0);
    out[i] = convolve(samples, Math.floor(place / numPhases) - half + 1, filter);
  }
  return out;
}

/** Weights of the 2 * half samples around a place that lies `offset` behind one. They sum to 1. */
function filterOf(offset: number, cutoff: number, half: number): Float64Array {
  const weights = Float64Array.from({ length: 2 * half }, (_, tap) => {
    const distance = tap - half + 1 - offset;
    const x = Math.PI * distance * cutoff;
    const sinc = x === 0 ? 1 : Math.sin(x) / x;
    const edge = Math.max(0, 1 - (distance / half) ** 2);
    return (sinc * bessel(KAISER_BETA * Math.sqrt(edge))) / bessel(KAISER_BETA);
  });
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return weights.map((weight) => weight / sum);
}

function convolve(samples: Float32Array, first: number, filter: Float64Array): number {
  let sum = 0;
  for (let tap = 0; tap < filter.length; tap++) sum += (filter[tap] ?? 0) * (samples[first + tap] ?? 0);
  return sum;
}

/** The modified Bessel function of order 0, by its series. */
function bessel(x: number): number {
  let [sum, term] = [1, 1];
  for (let k = 1; term > 1e-12 * sum; k++) {
    term *= (x / (2 * k)) ** 2;
    sum += term;
  }
  return sum;
}

function gcd(a: number, b: number): number {
  return b === 0 ? a : gcd(b, a % b);
}
