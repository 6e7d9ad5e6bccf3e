/**
 * Reads WAV files: integers of 8 to 32 bits and floats of 32 and 64, any number of channels, as one channel of numbers in -1..1.
 * Other containers are refused by name. Pure. Source: Microsoft and IBM 1991, "Multimedia Programming Interface and Data
 * Specifications", RIFF WAVE; RFC 2361 for codec numbers; WAVEFORMATEXTENSIBLE.
 */

export interface Sound {
  readonly sampleRate: number;
  /** The mean of the channels. */
  readonly samples: Float32Array;
}

const PCM = 1;
const FLOAT = 3;
const EXTENSIBLE = 0xfffe;
const MAX_CHANNELS = 64;
const MIN_RATE = 1000;
const MAX_RATE = 192_000;

/** First bytes of other containers, from a given offset on. */
const OTHERS: readonly (readonly [at: number, bytes: string, name: string])[] = [
  [0, "OggS", "Ogg"],
  [0, "fLaC", "FLAC"],
  [0, "ID3", "MP3"],
  [4, "ftyp", "MP4 or M4A"],
  [0, "\x1aE\xdf\xa3", "WebM or Matroska"],
  [0, "FORM", "AIFF"],
  [0, "RIFX", "big-endian WAV"],
  [0, "RF64", "RF64"],
  [0, "#!AMR", "AMR"],
];

interface Format {
  readonly code: number;
  readonly numChannels: number;
  readonly sampleRate: number;
  readonly bits: number;
}

/** @throws Error saying what is wrong with the file, or which container it is */
export function readWav(file: Uint8Array): Sound {
  if (textAt(file, 0, 4) !== "RIFF" || textAt(file, 8, 4) !== "WAVE") throw new Error(notWav(file));
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  let format: Format | undefined;
  for (let at = 12; at + 8 <= file.length; ) {
    const name = textAt(file, at, 4);
    const size = view.getUint32(at + 4, true);
    const start = at + 8;
    if (name === "fmt ") format = readFormat(view, start, size);
    if (name === "data") {
      if (format === undefined) throw new Error("WAV file: expected the chunk 'fmt ' before 'data'");
      // Programs that write to a pipe leave the size open.
      return {
        sampleRate: format.sampleRate,
        samples: readSamples(view, start, Math.min(size, file.length - start), format),
      };
    }
    at = start + size + (size % 2);
  }
  throw new Error("WAV file: expected a chunk 'data' with samples, got none");
}

function notWav(file: Uint8Array): string {
  const expected = "expected a WAV file (RIFF, PCM or float samples)";
  if (file.length === 0) return `${expected}, got an empty file`;
  const other = OTHERS.find(([at, bytes]) => textAt(file, at, bytes.length) === bytes);
  const isMpeg = file[0] === 0xff && ((file[1] ?? 0) & 0xe0) === 0xe0;
  const got = other?.[2] ?? (isMpeg ? "MP3 or AAC" : undefined);
  return got === undefined
    ? `${expected}, got something else`
    : `${expected}, got ${got}: convert it first, as with "ffmpeg -i input -ar 16000 -ac 1 output.wav"`;
}

function readFormat(view: DataView, at: number, size: number): Format {
  if (size < 16 || at + size > view.byteLength)
    throw new Error(`WAV file: expected a chunk 'fmt ' of at least 16 bytes, got ${size}`);
  const given = view.getUint16(at, true);
  // The first two bytes of the sub-format are the codec's number.
  const code = given === EXTENSIBLE && size >= 40 ? view.getUint16(at + 24, true) : given;
  const [numChannels, sampleRate] = [view.getUint16(at + 2, true), view.getUint32(at + 4, true)];
  const bits = view.getUint16(at + 14, true);
  const fits = (code === PCM && [8, 16, 24, 32].includes(bits)) || (code === FLOAT && [32, 64].includes(bits));
  if (!fits) throw new Error(`WAV file: expected PCM of 8 to 32 bits or floats, got codec ${code} with ${bits} bits`);
  if (numChannels < 1 || numChannels > MAX_CHANNELS)
    throw new Error(`WAV file: expected 1 to ${MAX_CHANNELS} channels, got ${numChannels}`);
  if (sampleRate < MIN_RATE || sampleRate > MAX_RATE)
    throw new Error(`WAV file: expected ${MIN_RATE} to ${MAX_RATE} samples a second, got ${sampleRate}`);
  return { code, numChannels, sampleRate, bits };
}

function readSamples(view: DataView, start: number, size: number, { code, numChannels, bits }: Format): Float32Array {
  const width = bits / 8;
  const count = Math.floor(size / (width * numChannels));
  const read = code === FLOAT ? FLOATS[bits] : INTEGERS[bits];
  if (read === undefined) throw new Error(`WAV file: samples of ${bits} bits`);
  const samples = new Float32Array(count);
  for (let i = 0; i < count; i++) {
    let sum = 0;
    for (let channel = 0; channel < numChannels; channel++) {
      sum += read(view, start + (i * numChannels + channel) * width);
    }
    const mean = sum / numChannels;
    samples[i] = Number.isFinite(mean) ? mean : 0;
  }
  return samples;
}

type Read = (view: DataView, at: number) => number;

/** By the bits of a sample, which has no sign where there are 8. */
const INTEGERS: Readonly<Record<number, Read>> = {
  8: (view, at) => (view.getUint8(at) - 128) / 2 ** 7,
  16: (view, at) => view.getInt16(at, true) / 2 ** 15,
  24: (view, at) => (view.getUint16(at, true) + view.getInt8(at + 2) * 2 ** 16) / 2 ** 23,
  32: (view, at) => view.getInt32(at, true) / 2 ** 31,
};
const FLOATS: Readonly<Record<number, Read>> = {
  32: (view, at) => view.getFloat32(at, true),
  64: (view, at) => view.getFloat64(at, true),
};

function textAt(file: Uint8Array, at: number, length: number): string {
  return Buffer.from(file.subarray(at, at + length)).toString("latin1");
}
