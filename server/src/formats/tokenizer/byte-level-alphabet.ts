/**
 * The byte-level alphabet of GPT-2 (`bytes_to_unicode`): bytes as printable characters. Source: Radford et al. 2019,
 * openai/gpt-2 encoder.py. Knows no tokenizer.
 */

/** Character of each byte. Printable Latin-1 maps to itself, every other byte to U+0100 and up. */
export const BYTE_TO_CHAR: readonly string[] = byteCharacters();

const CHAR_TO_BYTE: ReadonlyMap<string, number> = new Map(BYTE_TO_CHAR.map((char, byte) => [char, byte]));

/** Bytes of a token of a byte-level vocabulary; undefined when it holds a character outside the alphabet. */
export function tryBytesOfToken(token: string): Uint8Array | undefined {
  const bytes = new Uint8Array(token.length);
  for (let i = 0; i < token.length; i++) {
    const byte = CHAR_TO_BYTE.get(token.charAt(i));
    if (byte === undefined) return undefined;
    bytes[i] = byte;
  }
  return bytes;
}

function byteCharacters(): string[] {
  const characters: string[] = [];
  let numMoved = 0;
  for (let byte = 0; byte < 256; byte++) {
    const isPrintable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    characters.push(String.fromCharCode(isPrintable ? byte : 256 + numMoved));
    if (!isPrintable) numMoved++;
  }
  return characters;
}
