import assert from "node:assert/strict";
import { test } from "node:test";
import { HTTP2_ERROR } from "./codes.ts";
import { HeaderDecoder } from "./header-decoder.ts";
import { HeaderEncoder } from "./header-encoder.ts";
import { decodeHuffman } from "./huffman.ts";

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(" ", ""), "hex");

/** The examples of RFC 7541, appendix C: three requests each on one connection, without and with Huffman coding. */
const REQUESTS: readonly (readonly [plain: string, huffman: string, fields: readonly string[]])[] = [
  [
    "828684410f7777772e6578616d706c652e636f6d",
    "828684418cf1e3c2e5f23a6ba0ab90f4ff",
    [":method", "GET", ":scheme", "http", ":path", "/", ":authority", "www.example.com"],
  ],
  [
    "828684be58086e6f2d6361636865",
    "828684be5886a8eb10649cbf",
    [":method", "GET", ":scheme", "http", ":path", "/", ":authority", "www.example.com", "cache-control", "no-cache"],
  ],
  [
    "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
    "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
    [
      ":method",
      "GET",
      ":scheme",
      "https",
      ":path",
      "/index.html",
      ":authority",
      "www.example.com",
      "custom-key",
      "custom-value",
    ],
  ],
];

for (const form of [0, 1] as const) {
  test(`HeaderDecoder reads requests that fill and use the table, ${form === 0 ? "plain" : "Huffman-coded"}`, () => {
    const decoder = new HeaderDecoder(10_000);
    for (const request of REQUESTS) assert.deepEqual(decoder.decode(hex(request[form])).fields, request[2]);
  });
}

test("HeaderDecoder gives the same list for a block that comes again, until the table changes", () => {
  const decoder = new HeaderDecoder(10_000);
  const block = hex("828684");
  const first = decoder.decode(block);
  assert.equal(decoder.decode(Buffer.from(block)), first);
  decoder.decode(hex("400161 0162"));
  assert.deepEqual(decoder.decode(hex("be")).fields, ["a", "b"]);
  decoder.decode(hex("400163 0164"));
  assert.deepEqual(decoder.decode(hex("be")).fields, ["c", "d"]);
});

test("HeaderDecoder forgets the oldest fields when its table is made smaller", () => {
  const decoder = new HeaderDecoder(10_000);
  decoder.decode(hex("400161 0162 400163 0164"));
  decoder.decode(hex("3f05"));
  assert.deepEqual(decoder.decode(hex("be")).fields, ["c", "d"]);
  assert.throws(() => decoder.decode(hex("bf")), { code: HTTP2_ERROR.compression });
});

test("HeaderDecoder counts fields beyond the limit and keeps none of them", () => {
  const { fields, size } = new HeaderDecoder(50).decode(hex("82 000161 0162"));
  assert.deepEqual(fields, [":method", "GET"]);
  assert.equal(size, 7 + 3 + 32 + 34);
});

const BROKEN: readonly (readonly [what: string, block: string])[] = [
  ["index 0", "80"],
  ["an index that the table does not have", "be"],
  ["a number without end", "ffffffffffffffff"],
  ["a number that is cut off", "ff"],
  ["a string that is cut off", "400361"],
  ["a resize behind a field", "8220"],
  ["a table larger than allowed", "3fe2 1f"],
  ["Huffman padding of eight bits", "000161821fff"],
  ["Huffman padding that is not all ones", "000161 8118"],
  ["the end of strings inside a string", "00016184ffffffff"],
];
for (const [what, block] of BROKEN) {
  test(`HeaderDecoder refuses ${what}`, () => {
    assert.throws(() => new HeaderDecoder(10_000).decode(hex(block)), { code: HTTP2_ERROR.compression });
  });
}

test("decodeHuffman() reads every byte", () => {
  // All 256 codes one behind the other, made from the canonical order and padded with ones.
  const coded = hex(ALL_BYTES);
  const expected = Buffer.from(Array.from({ length: 256 }, (_, i) => i)).toString("latin1");
  assert.equal(decodeHuffman(coded, 0, coded.length), expected);
});

test("HeaderEncoder writes what the decoder reads, and repeated fields as one byte each", () => {
  const encoder = new HeaderEncoder();
  const decoder = new HeaderDecoder(10_000);
  const head = [":status", "200", "content-type", "application/grpc", "grpc-accept-encoding", "identity"];
  const lists = [head, ["grpc-status", "0"], head, ["grpc-status", "13", "grpc-message", "x".repeat(300)], head];
  const blocks = lists.map((list) => encoder.encode(list, list.length !== 4));
  for (const [i, block] of blocks.entries()) assert.deepEqual(decoder.decode(block).fields, lists[i]);
  assert.equal(blocks[2]?.length, 3);
  assert.equal(blocks[4], blocks[2]);
});

test("HeaderEncoder uses no table when the peer's is small, and says so once", () => {
  const encoder = new HeaderEncoder();
  const list = ["content-type", "application/grpc"];
  encoder.encode(list, true);
  encoder.limitTable(0);
  const [first, second] = [encoder.encode(list, true), encoder.encode(list, true)];
  assert.equal(first[0], 0x20);
  for (const block of [first, second]) {
    assert.deepEqual(new HeaderDecoder(1000).decode(block).fields, list);
  }
  assert.equal(second.length, first.length - 1);
});

const ALL_BYTES: string = [
  "ffc7fffd8fffffe2fffffe3fffffe4fffffe5fffffe6fffffe7fffffe8ffffeafffffff3fffffa7fffffabffffffdfffffebfffffecfff",
  "ffedfffffeefffffefffffff0ffffff1ffffff2fffffffbfffffcffffffd3fffffd7fffffdbfffffdffffffe3fffffe7fffffebfffffed",
  "4fe3f9ffaffcabf1febfafefe7fdfd2cbb00089969b71d79fb9f7fff20ffbff3ff50ddbd7f061c58f265cd9f469d5af66dddbf871e5f9c",
  "ff7ff7fffc3ff9ffe45fff4719242cb34e6e9d68a6a3d7dac426defe3cfaf7fffbfe7ffbffdffffffcfffe6ffff4bfff9ffffa3fffd3ff",
  "ff53fffd5ffffb3fffeb7fffdaffffb7ffff73fffeeffffdeffffebffffbfffffd9ffffdbfffebffffe0ffffeeffffc3ffff8bffff1fff",
  "fe4fffee7fffb1ffff97fffd9ffffcdffff9fffffbffffdafffeeffff4ffffb7fffee7fffe8ffffd3fffdeffffd5fffeeffffbdffffe1f",
  "ffdfffff7fffff5ffffecffff07fff87fffe0ffff17fffedffff87ffff77fffeffffeaffff8bfffe3ffff93ffff87fffcbffff37ffff1f",
  "ffff83ffffe1fffebfffe3ffff3fffff2ffffa3ffffd9fffff17ffffc7fffff27ffffdefffffbffffff2fffff8fffffb7fff97fff8ffff",
  "fe6fffffc1fffff87ffffe7fffffc5ffffe5fffe4ffff2fffffd1fffff4ffffffefffffe3fffffc9fffff97fffb3ffffcffffb7fffcdff",
  "ff4ffff9ffffd1ffffcffffeaffffafffffddffffeffffff4fffff5fffffabffffa7ffffd7fffff9bffffecfffffb7fffff3fffffe8fff",
  "ffd3fffffabfffff5fffffff7ffffecfffffdbfffffbbfffff7ffffff0fffffbbf",
].join("");
