import assert from "node:assert/strict";
import { test } from "node:test";
import { parseModelConfigJson } from "../config/model/model-config.ts";
import { parseSafetensorsHeader } from "../formats/tensors/safetensors-header.ts";
import { createTokenizer } from "../formats/tokenizer/tokenizer.ts";
import { shownValue } from "./json-object.ts";

const DEEP = 200_000;
const NESTED: string = "[".repeat(DEEP) + "]".repeat(DEEP);

test("shownValue() is the JSON of a small value", () => {
  for (const value of [null, true, -1.5, 'a"b', [], {}, [1, "x", null], { a: { b: [1] }, __proto__x: 2 }])
    assert.equal(shownValue(value), JSON.stringify(value));
  assert.equal(shownValue(undefined), "nothing");
});

test("shownValue() ends after its characters, whatever the size and the depth", () => {
  assert.equal(shownValue("x".repeat(100), 5), '"xxxx...');
  assert.equal(shownValue([1, 2, 3, 4, 5, 6], 5), "[1,2,...");
  assert.equal(shownValue({ toString: 1, valueOf: null }, 80), '{"toString":1,"valueOf":null}');
  assert.equal(shownValue(JSON.parse(NESTED), 5), "[[[[[...");
});

test("readers of JSON refuse what nests deeply in their own words", () => {
  const header = Buffer.from(`{"a":{"dtype":${NESTED},"shape":[],"data_offsets":[0,0]}}`);
  assert.throws(
    () => parseSafetensorsHeader(header, 8 + header.length, "f"),
    /^Error: f: tensor "a": dtype: expected one of/,
  );
  assert.throws(
    () => parseModelConfigJson(`{"input":${NESTED}}`),
    /Invalid config override: 'input\[0\]' expects an object/,
  );
  assert.throws(
    () => parseModelConfigJson('{"backend":"b","input":[{"data_type":{"toString":1}}]}'),
    /data_type' got \{"toString":1\}/,
  );
  const vocab = JSON.parse(`{"model":{"vocab":{"a":${NESTED}}}}`) as unknown;
  assert.throws(
    () => createTokenizer({ tokenizer: vocab, config: {} }),
    /^Error: model.vocab\["a"\]: expected a token id/,
  );
});
