/** Reads a file of sound at the rate of a model. */
import { resample } from "../../formats/audio/resample.ts";
import { readWav } from "../../formats/audio/wav.ts";

export interface ReadSound {
  /** One channel at the rate that was asked for. */
  readonly samples: Float32Array;
  readonly durationSeconds: number;
}

/** @throws Error saying what is wrong with the file */
export async function readSound(file: Uint8Array, sampleRate: number): Promise<ReadSound> {
  const sound = readWav(file);
  if (sound.samples.length === 0) throw new Error("WAV file: expected samples, got none");
  return {
    samples: await resample(sound.samples, sound.sampleRate, sampleRate),
    durationSeconds: sound.samples.length / sound.sampleRate,
  };
}
