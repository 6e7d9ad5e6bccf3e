import assert from "node:assert/strict";
import { test } from "node:test";
import { parseRankMapping } from "./rank-mapping.ts";

const ONE = { tensorParallel: 1, pipelineParallel: 1 };

test("parseRankMapping() finds the mapping of checkpoints and engines, and takes nothing else for one", () => {
  const mapping = { world_size: 4, tp_size: 2, pp_size: 2 };
  const expected = { tensorParallel: 2, pipelineParallel: 2 };
  assert.deepEqual(parseRankMapping({ mapping }), expected);
  assert.deepEqual(parseRankMapping({ pretrained_config: { mapping }, build_config: {} }), expected);
  for (const config of [null, 7, {}, { mapping: [] }, { mapping: { tp_size: "2", pp_size: 1.5 } }]) {
    assert.deepEqual(parseRankMapping(config), ONE);
  }
});
