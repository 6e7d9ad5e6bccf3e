/** The bytes that tokens stand for. Sources: openai/gpt-2 encoder.py (byte level); SentencePiece's byte fallback. */
import { tryBytesOfToken } from "../../formats/tokenizer/byte-level-alphabet.ts";
import type { Vocabulary } from "./tokenizer-vocabulary.ts";

const UTF8 = new TextEncoder();
const BYTE_TOKEN = /^<0x([\dA-F]{2})>$/;

/** By id, [vocabSize]; ids without a token have none. Special tokens stand for their letters. */
export function tokenBytes({ tokens, type }: Vocabulary, vocabSize: number): readonly Uint8Array[] {
  const read = READERS[type];
  return Array.from({ length: vocabSize }, (_, id) => read(tokens[id] ?? ""));
}

const READERS: Readonly<Record<Vocabulary["type"], (token: string) => Uint8Array>> = {
  byte_level: (token) => tryBytesOfToken(token) ?? UTF8.encode(token),
  byte_fallback: (token) => {
    const byte = BYTE_TOKEN.exec(token)?.[1];
    return byte === undefined ? UTF8.encode(token.replaceAll("▁", " ")) : Uint8Array.of(Number.parseInt(byte, 16));
  },
  raw: (token) => UTF8.encode(token),
};
