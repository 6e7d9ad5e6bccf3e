/** Sets of bytes, a bit for each, [8] words. */

export type ByteSet = Uint32Array;

const WORDS = 8;

export function emptyBytes(): ByteSet {
  return new Uint32Array(WORDS);
}

export function allBytes(): ByteSet {
  return emptyBytes().fill(0xffffffff);
}

/** Both included. */
export function addRange(set: ByteSet, first: number, last: number): ByteSet {
  for (let byte = first; byte <= last; byte++) set[byte >> 5] = (set[byte >> 5] ?? 0) | (1 << (byte & 31));
  return set;
}

export function hasByte(set: ByteSet, byte: number): boolean {
  return (((set[byte >> 5] ?? 0) >>> (byte & 31)) & 1) === 1;
}

export function addAll(set: ByteSet, other: ByteSet): void {
  for (let i = 0; i < WORDS; i++) set[i] = (set[i] ?? 0) | (other[i] ?? 0);
}

export function keepOnly(set: ByteSet, other: ByteSet): void {
  for (let i = 0; i < WORDS; i++) set[i] = (set[i] ?? 0) & (other[i] ?? 0);
}

export function removeAll(set: ByteSet, other: ByteSet): void {
  for (let i = 0; i < WORDS; i++) set[i] = (set[i] ?? 0) & ~(other[i] ?? 0);
}

export function countBytes(set: ByteSet): number {
  let count = 0;
  for (let word of set) for (; word !== 0; word &= word - 1) count += 1;
  return count;
}

export function bytesOf(set: ByteSet): number[] {
  const bytes: number[] = [];
  for (let i = 0; i < WORDS; i++) {
    for (let word = set[i] ?? 0; word !== 0; word &= word - 1) bytes.push(32 * i + 31 - Math.clz32(word & -word));
  }
  return bytes;
}

export function haveCommon(one: ByteSet, other: ByteSet): boolean {
  return one.some((word, i) => (word & (other[i] ?? 0)) !== 0);
}
