import assert from "node:assert/strict";
import { test } from "node:test";
import { clientTypes, type DescribedModel } from "./client-types.ts";

const SIMPLE: DescribedModel = {
  name: "simple",
  inputs: [
    { name: "INPUT0", datatype: "INT32", shape: [-1, 16], isOptional: false },
    { name: "of/two words", datatype: "BYTES", shape: [1], isOptional: true },
  ],
  outputs: [{ name: "OUTPUT0", datatype: "FP32", shape: [], isOptional: false }],
};
const EMPTY: DescribedModel = { name: 'a "b"', inputs: [], outputs: [] };

test("clientTypes() writes names, datatypes and shapes, sorted by model", () => {
  const text = clientTypes([SIMPLE, EMPTY]);
  assert.equal(
    text.slice(text.indexOf("export")),
    `export type Models = {
  readonly "a \\"b\\"": {
    readonly inputs: Record<never, never>;
    readonly optionalInputs: Record<never, never>;
    readonly outputs: Record<never, never>;
  };
  readonly simple: {
    readonly inputs: {
      readonly INPUT0: { readonly datatype: "INT32"; readonly shape: readonly [number, 16] };
    };
    readonly optionalInputs: {
      readonly "of/two words": { readonly datatype: "BYTES"; readonly shape: readonly [1] };
    };
    readonly outputs: {
      readonly OUTPUT0: { readonly datatype: "FP32"; readonly shape: readonly [] };
    };
  };
};
`,
  );
  assert.equal(clientTypes([EMPTY, SIMPLE]), text);
});
