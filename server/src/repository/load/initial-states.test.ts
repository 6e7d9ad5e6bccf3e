import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fakeSequenceConfig } from "../../../../tests/fakes/sequences.ts";
import type { ModelConfig } from "../../core/model-config.ts";
import { readInitialStates } from "./initial-states.ts";

const root = mkdtempSync(join(tmpdir(), "initial-states-"));
const folder = join(root, "m");
mkdirSync(join(folder, "initial_state"), { recursive: true });
writeFileSync(join(folder, "initial_state", "ones"), Uint8Array.of(1, 1));
writeFileSync(join(root, "secret"), "secret");
symlinkSync(join(root, "secret"), join(folder, "initial_state", "link"));
after(() => rmSync(root, { recursive: true, force: true }));

function configOf(file: string | undefined): ModelConfig {
  const initial = { name: "i", data_type: "TYPE_INT8", dims: [2], ...(file === undefined ? {} : { data_file: file }) };
  const state = {
    input_name: "S_IN",
    output_name: "S_OUT",
    data_type: "TYPE_INT8",
    dims: [2],
    initial_state: [{ ...initial, data_type: "TYPE_INT8" }],
    use_same_buffer_for_input_output: false,
    use_growable_memory: false,
  } as const;
  return fakeSequenceConfig({ state: [state] });
}

test("readInitialStates() reads the file of a state from the folder initial_state", () => {
  assert.deepEqual([...readInitialStates(configOf("ones"), folder)], [["S_IN", Uint8Array.of(1, 1)]]);
});

test("readInitialStates() reads nothing for a state without a file", () => {
  assert.equal(readInitialStates(configOf(undefined), folder).size, 0);
});

for (const file of ["missing", "../1/model", "../../secret", "link", "."]) {
  test(`readInitialStates() refuses '${file}'`, () => {
    assert.throws(() => readInitialStates(configOf(file), folder), {
      code: "invalid_argument",
      message: /^failed to read initial_state of state 'S_IN' of model 'm': /,
    });
  });
}
