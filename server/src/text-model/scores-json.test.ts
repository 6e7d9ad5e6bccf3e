import assert from "node:assert/strict";
import { test } from "node:test";
import { readScoresJson } from "./scores-json.ts";

test("readScoresJson() takes the first key of each object for the token that was chosen", () => {
  const entry = (logprob: number, decoded_token: string): string => JSON.stringify({ logprob, rank: 1, decoded_token });
  const text = `[{"90": ${entry(-2, '}{"5":')}, "7": ${entry(-1, "b")}}, {"3": ${entry(-0.5, "c")}}]`;
  const scores = readScoresJson(text, 1);
  assert.deepEqual(
    scores.map(({ id, logProb, text: own, top }) => [id, logProb, own, top.map((token) => token.id)]),
    [
      [90, -2, '}{"5":', [7]],
      [3, -0.5, "c", [3]],
    ],
  );
});

test("readScoresJson() gives nothing for other texts", () => {
  for (const text of ["null", "{", "[1]", "[{}]", '[{"3": 4}]', "{}"]) assert.deepEqual(readScoresJson(text, 1), []);
});
