/**
 * Ranges of code points as sequences of byte ranges in UTF-8. Source: RFC 3629, section 4; the splitting of ranges is that
 * of Russ Cox's RE2 ("Regular Expression Matching in the Wild", 2010).
 */
import type { CodePointRange } from "./syntax.ts";

/** Bytes of one place of a sequence, both included. */
export type ByteRange = readonly [first: number, last: number];

const FIRST_SURROGATE = 0xd800;
const LAST_SURROGATE = 0xdfff;
/** Last code point of each length. */
const LENGTH_ENDS = [0x7f, 0x7ff, 0xffff, 0x10ffff];

/** Every code point of the range is one of the sequences; surrogates are left out. */
export function utf8Sequences([first, last]: CodePointRange): readonly (readonly ByteRange[])[] {
  if (first > last) return [];
  if (first <= LAST_SURROGATE && last >= FIRST_SURROGATE) {
    return [...utf8Sequences([first, FIRST_SURROGATE - 1]), ...utf8Sequences([LAST_SURROGATE + 1, last])];
  }
  const end = LENGTH_ENDS.find((each) => first <= each) ?? last;
  if (last > end) return [...utf8Sequences([first, end]), ...utf8Sequences([end + 1, last])];
  return splitByBits(first, last);
}

/** Both of one length: ranges whose lower bytes do not cover everything are cut until they do. */
function splitByBits(first: number, last: number): readonly (readonly ByteRange[])[] {
  const length = LENGTH_ENDS.findIndex((end) => last <= end) + 1;
  for (let bits = 6; bits < 6 * length; bits += 6) {
    const low = (1 << bits) - 1;
    if (first >>> bits === last >>> bits) break;
    if ((first & low) !== 0) return [...splitByBits(first, first | low), ...splitByBits((first | low) + 1, last)];
    if ((last & low) !== low) return [...splitByBits(first, (last & ~low) - 1), ...splitByBits(last & ~low, last)];
  }
  const low = encoded(first, length);
  const high = encoded(last, length);
  return [low.map((byte, i): ByteRange => [byte, high[i] ?? byte])];
}

function encoded(point: number, length: number): readonly number[] {
  if (length === 1) return [point];
  const bytes: number[] = [];
  for (let place = length - 1; place > 0; place--) bytes.push(0x80 | ((point >>> (6 * (place - 1))) & 0x3f));
  const lead = ((0xf00 >>> length) & 0xff) | (point >>> (6 * (length - 1)));
  return [lead, ...bytes];
}
