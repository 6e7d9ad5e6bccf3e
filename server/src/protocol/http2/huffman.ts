/**
 * The Huffman code of header strings (RFC 7541, 5.2 and appendix B). The code is canonical, so the code lengths define
 * it.
 */
import { HTTP2_ERROR, Http2Fault } from "./codes.ts";

/** Bits of the code of each byte and, last, of the end of a string: a letter each, from A = 5 bits. */
const LENGTHS =
  "ISXXXXXXXTZXXZXXXXXXXXZXXXXXXXXXBFFHIBDGFFDGDBBBAAABBBBBBBCDKBHFIBCCCCCCCCCCCCCCCCCCCCCCDCDIOIJBKABABABBBACCBBBABCBAABCCCCCKGJIX" +
  "PRPPRRRSRSSSSSTSTTRSTSSSSQRSRSSTRQPRRSSQSRRTQRSSQQRQSRSSPRRRSRRSVVPORSRUVVVWWVTUOQVWWVWTQQVVXWWWPTPQRQQSRRUUTTVSVWVVWWWWWXWWWWWVZ";
const SHORTEST = 5;
const LONGEST = 30;
const END = 256;
/** Codes up to this length are found by one look. */
const QUICK_BITS = 10;

interface Code {
  /** By the next bits: symbol * 16 + length; 0 = the code is longer. */
  readonly quick: Uint16Array;
  /** By length: the first code, how many there are, and where their symbols begin. */
  readonly first: Uint32Array;
  readonly count: Uint16Array;
  readonly start: Uint16Array;
  readonly symbols: Uint16Array;
}

const CODE: Code = createCode();

function createCode(): Code {
  const lengths = Uint8Array.from(LENGTHS, (letter) => letter.charCodeAt(0) - 65 + SHORTEST);
  const symbols = Uint16Array.from(lengths.keys()).sort((a, b) => (lengths[a] ?? 0) - (lengths[b] ?? 0) || a - b);
  const quick = new Uint16Array(1 << QUICK_BITS);
  const [first, count, start] = [
    new Uint32Array(LONGEST + 1),
    new Uint16Array(LONGEST + 1),
    new Uint16Array(LONGEST + 1),
  ];
  let code = 0;
  let length = 0;
  for (const [place, symbol] of symbols.entries()) {
    const next = lengths[symbol] ?? 0;
    // Not a shift: codes of 30 bits, doubled once more, must stay positive.
    code *= 2 ** (next - length);
    if (next !== length) [first[next], start[next]] = [code, place];
    length = next;
    count[next] = (count[next] ?? 0) + 1;
    if (length <= QUICK_BITS) {
      const at = code << (QUICK_BITS - length);
      quick.fill(symbol * 16 + length, at, at + (1 << (QUICK_BITS - length)));
    }
    code += 1;
  }
  return { quick, first, count, start, symbols };
}

const text: Buffer = Buffer.allocUnsafe(65_536);

/** @throws Http2Fault when it is none, or ends wrongly */
export function decodeHuffman(bytes: Uint8Array, from: number, to: number): string {
  expectRoom(to - from);
  let bits = 0;
  let held = 0;
  let at = from;
  let length = 0;
  for (;;) {
    // With one byte more, the longest code is there.
    while (held <= 22 && at < to) {
      bits = (bits << 8) | (bytes[at++] ?? 0);
      held += 8;
    }
    const found = quickSymbol(bits, held) || slowSymbol(bits, held, bytes[at] ?? 0, at < to);
    if (found === 0) break;
    const size = found & 31;
    if (size > held) {
      bits = ((bits << 8) | (bytes[at++] ?? 0)) >>> 0;
      held += 8;
    }
    if (found >>> 5 === END) throw fault("holds the end of strings");
    text[length++] = found >>> 5;
    held -= size;
    bits &= (1 << held) - 1;
  }
  expectPadding(bits, at < to ? 8 : held);
  return text.toString("latin1", 0, length);
}

function expectRoom(numBytes: number): void {
  if (numBytes * 8 > text.length * SHORTEST) throw fault("is too long");
}

/** Less than a byte, all ones. */
function expectPadding(bits: number, held: number): void {
  if (held >= 8 || bits !== (1 << held) - 1) throw fault("ends wrongly");
}

/** symbol * 32 + length; 0: the code is long, or there is none */
function quickSymbol(bits: number, held: number): number {
  const next = held >= QUICK_BITS ? bits >>> (held - QUICK_BITS) : bits << (QUICK_BITS - held);
  const found = CODE.quick[next & (2 ** QUICK_BITS - 1)] ?? 0;
  const size = found & 15;
  return size === 0 || size > held ? 0 : (found >>> 4) * 32 + size;
}

/** The same for codes of any length. `ahead`: the byte behind those that are held. */
function slowSymbol(bits: number, held: number, ahead: number, hasAhead: boolean): number {
  const available = hasAhead ? held + 8 : held;
  let code = 0;
  for (let size = 1; size <= LONGEST && size <= available; size++) {
    const left = held - size;
    const bit = left >= 0 ? (bits >>> left) & 1 : (ahead >>> (8 + left)) & 1;
    code = code * 2 + bit;
    const offset = code - (CODE.first[size] ?? 0);
    if (offset >= 0 && offset < (CODE.count[size] ?? 0)) {
      return (CODE.symbols[(CODE.start[size] ?? 0) + offset] ?? END) * 32 + size;
    }
  }
  return 0;
}

function fault(what: string): Http2Fault {
  return new Http2Fault(HTTP2_ERROR.compression, `a Huffman-coded string ${what}`);
}
