/** Writes a model of random weights to a folder, for what reads files: servers, and several GPUs that load their shares. */
import { closeSync, mkdirSync, openSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { parseSynthetic, SyntheticTensors } from "./synthetic-model.ts";

const PIECE_BYTES = 64 << 20;

export async function writeSynthetic(folder: string, config: Readonly<Record<string, unknown>>): Promise<void> {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  const source = new SyntheticTensors(parseSynthetic(config));
  const header: Record<string, unknown> = {};
  let end = 0;
  for (const { name, dtype, shape, byteLength } of source.tensors.values()) {
    header[name] = { dtype, shape, data_offsets: [end, end + byteLength] };
    end += byteLength;
  }
  const text = Buffer.from(JSON.stringify(header));
  const padded = Buffer.concat([text, Buffer.alloc((8 - (text.length % 8)) % 8, " ")]);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(padded.length));
  const file = openSync(join(folder, "model.safetensors"), "w");
  writeSync(file, Buffer.concat([length, padded]));
  const piece = new Uint8Array(PIECE_BYTES);
  for (const { name, byteLength } of source.tensors.values()) {
    for (let at = 0; at < byteLength; at += PIECE_BYTES) {
      const bytes = piece.subarray(0, Math.min(PIECE_BYTES, byteLength - at));
      await source.read(name, bytes, at);
      writeSync(file, bytes);
    }
  }
  closeSync(file);
}
