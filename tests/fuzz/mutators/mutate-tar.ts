/** Breaks tar archives block by block and puts the checksums of headers right (POSIX.1-2017, ustar). */
import type { Random } from "../../support/random.ts";
import { mutateBytes } from "./mutate-bytes.ts";

const BLOCK = 512;
const CHECKSUM = { from: 148, to: 156 } as const;
/** Name, mode, size, type, link, magic, prefix: offset and length. */
const FIELDS: readonly (readonly [from: number, length: number])[] = [
  [0, 100],
  [100, 8],
  [124, 12],
  [156, 1],
  [157, 100],
  [257, 8],
  [345, 155],
];
const VALUES: readonly string[] = [
  "",
  "/",
  "..",
  "../x",
  "a/../../x",
  "/etc/x",
  "a/./b",
  "00000000010\0",
  "77777777777\0",
  "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
  "\x80\0\0\0\0\0\0\0\0\0\x02\0",
  "-1",
  " 12 ",
  "x".repeat(155),
  "ustar\x0000",
  "ustar  \0",
  ...["0", "1", "2", "3", "5", "7", "L", "K", "x", "g", "S"],
];

export function mutateTar(seed: Buffer, random: Random): Buffer {
  let bytes: Buffer = Buffer.from(seed);
  for (let left = 1 + random.below(3); left > 0; left -= 1) bytes = changed(bytes, random);
  return bytes;
}

function changed(bytes: Buffer, random: Random): Buffer {
  const at = BLOCK * random.below(Math.max(1, bytes.length / BLOCK));
  const block = bytes.subarray(at, at + BLOCK);
  switch (random.below(7)) {
    case 0:
      return Buffer.concat([bytes.subarray(0, at), block, block, bytes.subarray(at + BLOCK)]);
    case 1:
      return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + BLOCK)]);
    case 2:
      return bytes.subarray(0, random.below(bytes.length + 1));
    case 3:
      return mutateBytes(bytes, random);
    case 4:
      return Buffer.concat([bytes.subarray(0, at), mutateBytes(block, random)]);
    default:
      writeField(block, random);
      return bytes;
  }
}

function writeField(block: Buffer, random: Random): void {
  if (block.length < BLOCK) return;
  const [from, length] = random.pick(FIELDS);
  block.fill(0, from, from + length);
  block.write(random.pick(VALUES), from, length, "latin1");
  block.fill(" ", CHECKSUM.from, CHECKSUM.to);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, CHECKSUM.from, "latin1");
}
