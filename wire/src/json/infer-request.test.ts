import assert from "node:assert/strict";
import { test } from "node:test";
import { encodeUtf8 } from "../utf8.ts";
import { JsonLimitError } from "./error.ts";
import { InferRequestReader, type JsonInferInput, type JsonInferRequest } from "./infer-request.ts";
import { JSON_ARRAY, JSON_OBJECT } from "./value.ts";

const LIMITS = { maxDepth: 100, maxItems: 1000 };

function read(text: string): JsonInferRequest {
  const work = new InferRequestReader(LIMITS).read(encodeUtf8(text));
  let step = work.next();
  while (step.done !== true) step = work.next();
  return step.value;
}

function readInput(text: string): JsonInferInput {
  const { inputs } = read(`{"inputs":[${text}]}`);
  assert.ok(Array.isArray(inputs));
  return inputs[0] as JsonInferInput;
}

function values(input: JsonInferInput, make: (buffer: ArrayBuffer) => ArrayLike<number | bigint>): (number | bigint)[] {
  const data = input.tensor?.data ?? new Uint8Array(0);
  const copy = new ArrayBuffer(data.length);
  new Uint8Array(copy).set(data);
  return Array.from(make(copy));
}

test("read() gives members of the request, first one of equal names", () => {
  const request = read(
    '{"id":"a","id":"b","parameters":{"n":-3,"d":1.5,"s":"x","o":{},"l":[1],"n":9},"outputs":[{"name":"Y"}]}',
  );
  assert.equal(request.id, "a");
  assert.deepEqual(
    [...(request.parameters as ReadonlyMap<string, unknown>)],
    [
      ["n", -3],
      ["d", { double: 1.5 }],
      ["s", "x"],
      ["o", JSON_OBJECT],
      ["l", JSON_ARRAY],
    ],
  );
  assert.deepEqual(request.outputs, [{ name: "Y", parameters: undefined }]);
  assert.equal(request.inputs, undefined);
});

test("read() takes nested data and wraps integers to their width", () => {
  const input = readInput(
    '{"name":"X","datatype":"INT32","shape":[4],"data":[[[1]],[2147483648,-2147483649],9007199254740993]}',
  );
  assert.deepEqual(
    values(input, (b) => new Int32Array(b)),
    [1, -2147483648, 2147483647, 1],
  );
});

test("read() reads data that stands before its datatype and shape", () => {
  const input = readInput('{"data":[1.5,-2e3],"shape":[2],"datatype":"FP32","name":"X"}');
  assert.deepEqual(
    values(input, (b) => new Float32Array(b)),
    [1.5, -2000],
  );
});

const INTEGERS: [string, (buffer: ArrayBuffer) => ArrayLike<number | bigint>, string, (number | bigint)[]][] = [
  ["UINT8", (b) => new Uint8Array(b), "255,256", [255, 0]],
  ["INT8", (b) => new Int8Array(b), "-128,128", [-128, -128]],
  ["UINT16", (b) => new Uint16Array(b), "65535,65536", [65535, 0]],
  ["INT16", (b) => new Int16Array(b), "-32769,7", [32767, 7]],
  ["INT16", (b) => new Int16Array(b), "1,-2, 3 ,[4,[5]],-70000,12345678901,0", [1, -2, 3, 4, 5, -4464, 7221, 0]],
  ["INT64", (b) => new BigInt64Array(b), "5,-6,1234567890,-7", [5n, -6n, 1_234_567_890n, -7n]],
  ["UINT32", (b) => new Uint32Array(b), "4294967295,4294967296", [4294967295, 0]],
  ["INT64", (b) => new BigInt64Array(b), "-9223372036854775808,-1", [-(2n ** 63n), -1n]],
  [
    "UINT64",
    (b) => new BigUint64Array(b),
    "18446744073709551615,9007199254740993",
    [2n ** 64n - 1n, 9007199254740993n],
  ],
];
for (const [datatype, make, text, expected] of INTEGERS) {
  test(`read() gives exact ${datatype} of ${text}`, () => {
    const input = readInput(`{"name":"X","datatype":"${datatype}","shape":[${expected.length}],"data":[${text}]}`);
    assert.deepEqual(values(input, make), expected);
  });
}

test("read() gives strings with their lengths, escapes resolved and other bytes as they are", () => {
  const input = readInput('{"name":"X","datatype":"BYTES","shape":[3],"data":["a\\n\\u00e9\\ud83d\\ude00","","ż"]}');
  assert.deepEqual(
    [...(input.tensor?.data ?? [])],
    [...[8, 0, 0, 0, 0x61, 0x0a, 0xc3, 0xa9, 0xf0, 0x9f, 0x98, 0x80], ...[0, 0, 0, 0], ...[2, 0, 0, 0, 0xc5, 0xbc]],
  );
});

test("read() keeps long strings and many elements whole", () => {
  const long = "x".repeat(100_000);
  const strings = readInput(`{"name":"X","datatype":"BYTES","shape":[2],"data":["${long}","${long}"]}`);
  assert.equal(strings.tensor?.data.length, 200_008);
  const numbers = Array.from({ length: 50_000 }, (_, i) => i);
  const input = readInput(`{"name":"X","datatype":"INT32","shape":[50000],"data":${JSON.stringify(numbers)}}`);
  assert.deepEqual(
    values(input, (b) => new Int32Array(b)),
    numbers,
  );
});

const WRONG: [string, string, string][] = [
  ["INT32", "1.5", "non-signed-integer as signed-integer"],
  ["INT32", "{}", "non-signed-integer as signed-integer"],
  ["INT32", "1,1.5", "non-signed-integer as signed-integer"],
  ["UINT8", "-1", "non-unsigned-integer as unsigned-integer"],
  ["UINT8", "1,-1", "non-unsigned-integer as unsigned-integer"],
  ["FP32", "true", "non-number as double"],
  ["BOOL", "1", "non-boolean as boolean"],
  ["BYTES", "1", "non-string as string"],
];
for (const [datatype, element, error] of WRONG) {
  test(`read() remembers that ${element} is no ${datatype}`, () => {
    const input = readInput(`{"name":"X","datatype":"${datatype}","shape":[2],"data":[${element}]}`);
    assert.equal(input.tensor?.error, error);
  });
}

test("read() counts elements that are too many without keeping them", () => {
  const { tensor } = readInput('{"name":"X","datatype":"INT32","shape":[2],"data":[1,2,3,4]}');
  assert.equal(tensor?.count, 4);
  assert.equal(tensor?.data.length, 8);
});

test("read() reserves nothing for a shape that only claims to be large", () => {
  const { tensor } = readInput('{"name":"X","datatype":"FP64","shape":[4294967295,4294967295],"data":[1]}');
  assert.equal(tensor?.count, 1);
  assert.ok((tensor?.data.buffer.byteLength ?? 0) <= 65_536);
});

const BROKEN: [string, string][] = [
  ["", "The document is empty. at 0"],
  ["   ", "The document is empty. at 3"],
  ["]", "The document is empty. at 0"],
  ["hello", "Invalid value. at 0"],
  ["{", "Missing a name for object member. at 1"],
  ["{1:2}", "Missing a name for object member. at 1"],
  ['{"a" 1}', "Missing a colon after a name of object member. at 5"],
  ['{"a":1 "b"', "Missing a comma or } after an object member. at 7"],
  ['{"a":[1 2]}', "Missing a comma or ] after an array element. at 8"],
  ['{"inputs":[],}', "Missing a name for object member. at 13"],
  ['{"a":"\\q"}', "Invalid escape character in string. at 6"],
  ['{"a":"\\u12g4"}', "Incorrect hex digit after \\u escape in string. at 6"],
  ['{"a":"\\ud800"}', "The surrogate pair in string is invalid. at 6"],
  ['{"a":"x', "Missing a closing quotation mark in string. at 7"],
  ['{"a":"\n"}', "Invalid escape character in string. at 6"],
  ["{}x", "The document root must not be followed by other values. at 2"],
  ['{"inputs":[{"name":"X","datatype":"INT32","shape":[1],"data":[1,]}]}', "Invalid value. at 64"],
];
for (const [text, message] of BROKEN) {
  test(`read() refuses ${JSON.stringify(text.slice(0, 30))}`, () => {
    assert.throws(() => read(text), { name: "JsonSyntaxError", message });
  });
}

test("read() takes nesting of 100 and refuses 101, wherever it is", () => {
  const nested = (depth: number): string => `${"[".repeat(depth)}1${"]".repeat(depth)}`;
  const data = (depth: number): string =>
    `{"inputs":[{"name":"X","datatype":"INT32","shape":[1],"data":${nested(depth)}}]}`;
  const message = "JSON nesting depth exceeds maximum allowed limit (100)";
  read(`{"extra":${nested(99)}}`);
  assert.throws(() => read(`{"extra":${nested(100)}}`), { name: "JsonLimitError", message });
  read(data(97));
  assert.throws(() => read(data(98)), { name: "JsonLimitError", message });
});

test("read() takes as many items as the limit says and no more", () => {
  const parameters = (count: number): string =>
    `{"parameters":{${Array.from({ length: count }, (_, i) => `"p${i}":1`).join(",")}}}`;
  read(parameters(LIMITS.maxItems - 1)); // and the member "parameters" itself
  assert.throws(() => read(parameters(LIMITS.maxItems)), { name: "JsonLimitError" });
  assert.throws(() => read(`{"inputs":[${"{},".repeat(1000)}{}]}`), { name: "JsonLimitError" });
});

test("read() takes ids and names as long as the limit says and no longer, and longer texts in tensors", () => {
  const reader = new InferRequestReader({ ...LIMITS, maxStringBytes: 10 });
  const readAll = (text: string): number => [...reader.read(encodeUtf8(text))].length;
  readAll('{"id":"1234567890"}');
  for (const text of ['{"id":"12345678901"}', '{"12345678901":1}', '{"parameters":{"a":"12345678901"}}']) {
    assert.throws(() => readAll(text), { name: "JsonLimitError" });
  }
  readAll('{"inputs":[{"name":"X","datatype":"BYTES","shape":[1],"data":["12345678901"]}]}');
});

test("read() pauses among objects that stand where elements should", () => {
  const text = `{"inputs":[{"name":"X","datatype":"UINT8","shape":[1],"data":[${"{},".repeat(10_000)}1]}]}`;
  assert.equal([...new InferRequestReader(LIMITS).read(encodeUtf8(text))].length, 9);
});

test("read() pauses in long arrays and never in short ones", () => {
  const pauses = (count: number): number => {
    const data = `[${"1,".repeat(count - 1)}1]`;
    const text = `{"inputs":[{"name":"X","datatype":"UINT8","shape":[${count}],"data":${data}}],"extra":${data}}`;
    return [...new InferRequestReader(LIMITS).read(encodeUtf8(text))].length;
  };
  assert.equal(pauses(1000), 0);
  assert.ok(pauses(200_000) >= 12);
});

const SHAPES = Array.from({ length: 20 }, () => `{"shape":[${"1,".repeat(60)}1]}`).join();
const PARAMETERS = `{${Array.from({ length: 500 }, (_, i) => `"p${i}":1`).join()}}`;
const TOO_MANY: readonly [what: string, text: string][] = [
  ["members of the request", `{${'"id":1,'.repeat(1000)}"id":1}`],
  ["members of an input", `{"inputs":[{${'"name":1,'.repeat(1000)}"name":1}]}`],
  ["members of an output", `{"outputs":[{${'"name":1,'.repeat(1000)}"name":1}]}`],
  ["dimensions of all inputs", `{"inputs":[${SHAPES}]}`],
  ["parameters of all outputs", `{"outputs":[{"parameters":${PARAMETERS}},{"parameters":${PARAMETERS}}]}`],
];
for (const [what, text] of TOO_MANY) {
  test(`read() refuses more ${what} than the limit`, () => {
    assert.throws(() => read(text), JsonLimitError);
  });
}

test("read() does not count elements of tensors as items", () => {
  const input = readInput(`{"name":"X","datatype":"UINT8","shape":[5000],"data":[${"1,".repeat(4999)}1]}`);
  assert.equal(input.tensor?.count, 5000);
});
