/**
 * MXFP4 codes in the order that grouped GEMMs read them. A block of 32 inputs is 16 bytes: input 2k in the lower half of
 * byte k, input 2k + 1 in the upper. Word j becomes the codes that lane j of four holds of two A fragments: inputs 2j,
 * 2j + 8, 2j + 16 and 2j + 24 in its lower 16 bits, the inputs behind these in its upper ones. Sources: OCP Microscaling
 * Formats (MX) v1.0, section 5.3.3; PTX ISA, fragments of mma.sync.m16n8k16.
 */

const BLOCK_BYTES = 16;
const WORDS = 4;
/** Scales are stored 2^63 too large, as exponents of bf16 (Mxfp4Weights of skinny-tile.cuh). */
const SCALE_SHIFT = 63;
const MAX_EXPONENT = 254;

/** Bits of code `code` as number `pair` of 16 bits: sign, exponent and fraction where few shifts bring them to bf16's. */
function placed(code: number, pair: number): number {
  const [sign, size] = [code >> 3, code & 7];
  if (pair < 3) return (sign << (15 - 3 * pair)) | (size << (6 - 3 * pair));
  return (sign << 14) | ((size >> 2) << 13) | ((size & 3) << 10);
}

const TABLES: readonly Uint32Array[] = Array.from({ length: WORDS }, (_, pair) =>
  Uint32Array.from({ length: 256 }, (_, byte) => placed(byte & 15, pair) + placed(byte >> 4, pair) * 2 ** 16),
);

/** The codes of whole blocks. */
export function packMxfp4(blocks: Uint8Array): Uint8Array {
  const words = new Uint32Array(blocks.length / 4);
  const [first, second, third, fourth] = TABLES;
  if (first === undefined || second === undefined || third === undefined || fourth === undefined) return blocks;
  for (let block = 0; block < blocks.length / BLOCK_BYTES; block++) {
    for (let word = 0; word < WORDS; word++) {
      const at = block * BLOCK_BYTES + word;
      words[block * WORDS + word] =
        (first[blocks[at] ?? 0] ?? 0) |
        (second[blocks[at + 4] ?? 0] ?? 0) |
        (third[blocks[at + 8] ?? 0] ?? 0) |
        (fourth[blocks[at + 12] ?? 0] ?? 0);
    }
  }
  return new Uint8Array(words.buffer);
}

/** E8M0 scales as the kernels take them. @throws Error for a scale above 2^64 */
export function packMxfp4Scales(exponents: Uint8Array): Uint8Array {
  return exponents.map((exponent) => {
    if (exponent + SCALE_SHIFT > MAX_EXPONENT)
      throw new Error(`an MXFP4 scale of 2^${exponent - 127}: expected at most 2^64`);
    return exponent + SCALE_SHIFT;
  });
}
