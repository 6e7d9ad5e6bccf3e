import assert from "node:assert/strict";
import { test } from "node:test";
import { ServerError } from "../../core/server-error.ts";
import { chooseRanks, parseDeviceIds, type RankSettings, rankNetwork, ranksOn } from "./rank-settings.ts";

const NOTHING: RankSettings = {
  tensorParallel: undefined,
  pipelineParallel: undefined,
  worldSize: undefined,
  deviceIds: [],
};
const ONE = { tensorParallel: 1, pipelineParallel: 1 };
const refuse = (text: string): ServerError => new ServerError("invalid_argument", text);

test("chooseRanks() takes parameters before the world size, and that before the checkpoint's mapping", () => {
  const split = { tensorParallel: 2, pipelineParallel: 2 };
  for (const [settings, mapping, numTensorRanks, numStages, isAskedFor] of [
    [{}, ONE, 1, 1, false],
    [{}, split, 2, 2, false],
    [{ worldSize: 4 }, split, 2, 2, true],
    [{ worldSize: 2 }, split, 2, 1, true],
    [{ worldSize: 2 }, ONE, 2, 1, true],
    [{ tensorParallel: 4, worldSize: 2 }, split, 4, 1, true],
    [{ pipelineParallel: 2 }, split, 1, 2, true],
    [{ deviceIds: [[0, 1, 2, 3]] }, split, 2, 2, true],
    [{ deviceIds: [[2, 3]] }, ONE, 2, 1, true],
  ] as const) {
    assert.deepEqual(chooseRanks({ ...NOTHING, ...settings }, mapping), { numTensorRanks, numStages, isAskedFor });
  }
});

test("parseDeviceIds() reads the GPUs of each instance", () => {
  assert.deepEqual(parseDeviceIds(undefined, refuse), []);
  assert.deepEqual(parseDeviceIds("0", refuse), [[0]]);
  assert.deepEqual(parseDeviceIds("0, 1;2,3", refuse), [
    [0, 1],
    [2, 3],
  ]);
  for (const text of ["a", "0,", "0,0", "0,1;2", "-1", "0;;1", "1e3"]) {
    assert.throws(() => parseDeviceIds(text, refuse), /numbers of GPUs with commas/, text);
  }
});

test("ranksOn() wants as many GPUs as run an instance", () => {
  const shape = { numTensorRanks: 2, numStages: 1, isAskedFor: true };
  assert.deepEqual(ranksOn(shape, [2, 3], refuse), { numTensorRanks: 2, numStages: 1, ordinals: [2, 3] });
  assert.equal(ranksOn({ ...shape, numTensorRanks: 1 }, [3], refuse), undefined);
  assert.throws(() => ranksOn(shape, [2], refuse), /2 GPUs run an instance together, got 1 \(2\)/);
  assert.throws(() => ranksOn({ ...shape, numTensorRanks: 65 }, [0], refuse), /at most 64 GPUs/);
});

test("rankNetwork() is what launchers of several processes say to the first", () => {
  const environment = { RANK: "0", WORLD_SIZE: "2", MASTER_ADDR: "10.0.0.1", MASTER_PORT: "29500" };
  assert.deepEqual(rankNetwork(environment), { address: "10.0.0.1", port: 29500, timeoutMs: 300_000, worldSize: 2 });
  assert.equal(rankNetwork({ ...environment, RANK: "1" }), undefined);
  assert.equal(rankNetwork({ ...environment, WORLD_SIZE: "1" }), undefined);
  assert.equal(rankNetwork({}), undefined);
  assert.throws(() => rankNetwork({ ...environment, MASTER_PORT: "http" }), /MASTER_PORT is 'http'/);
});
