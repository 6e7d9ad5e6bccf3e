/** The sound of record_whisper_features.py, and WAV files of it. */

/** Tones whose pitch rises, and noise from a linear congruential generator: 16,000 samples a second. */
export function sound(seconds: number): Float32Array {
  let state = 7;
  return Float32Array.from({ length: Math.round(seconds * 16_000) }, (_, i) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const t = i / 16_000;
    const tones = Math.sin(2 * Math.PI * (200 + 900 * t) * t) + 0.4 * Math.sin(2 * Math.PI * 3100 * t);
    return 0.3 * tones + 0.01 * (state / 2 ** 31 - 1);
  });
}

/** PCM of 16 bits, one channel. */
export function wavOf(samples: Float32Array, sampleRate = 16_000): Uint8Array {
  const file = Buffer.alloc(44 + 2 * samples.length);
  file.write("RIFF", 0, "latin1");
  file.writeUInt32LE(file.length - 8, 4);
  file.write("WAVEfmt ", 8, "latin1");
  file.writeUInt32LE(16, 16);
  file.writeUInt16LE(1, 20);
  file.writeUInt16LE(1, 22);
  file.writeUInt32LE(sampleRate, 24);
  file.writeUInt32LE(2 * sampleRate, 28);
  file.writeUInt16LE(2, 32);
  file.writeUInt16LE(16, 34);
  file.write("data", 36, "latin1");
  file.writeUInt32LE(2 * samples.length, 40);
  for (const [i, value] of samples.entries()) file.writeInt16LE(Math.round(value * 32_767), 44 + 2 * i);
  return file;
}
