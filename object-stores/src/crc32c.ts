/**
 * CRC32C (Castagnoli polynomial, RFC 3720, section 12.1). S3 and Google Cloud Storage state it for objects composed of
 * parts.
 */

/** Reflected polynomial. */
const POLYNOMIAL = 0x82f63b78;

const TABLE: Int32Array = Int32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? (value >>> 1) ^ POLYNOMIAL : value >>> 1;
  return value;
});

export class Crc32c {
  #state = -1;

  update(bytes: Uint8Array): void {
    let state = this.#state;
    for (let i = 0; i < bytes.length; i += 1) {
      state = (state >>> 8) ^ (TABLE[(state ^ (bytes[i] ?? 0)) & 0xff] ?? 0);
    }
    this.#state = state;
  }

  /** Eight hex digits. */
  digest(): string {
    return (~this.#state >>> 0).toString(16).padStart(8, "0");
  }
}
