import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { completeWritten } from "./fill-defaults.ts";
import { messageNames, messageSpec } from "./schema.ts";

const types: string = readFileSync(new URL("../../core/model-config.ts", import.meta.url), "utf8");

/** The fields of an interface: its name to "?" where the type lets it be absent. */
function fieldsOfInterface(name: string): Record<string, string> {
  const body = new RegExp(`interface ${name} \\{([^}]*)\\}`).exec(types)?.[1];
  assert.ok(body !== undefined, `core has no interface ${name}`);
  return Object.fromEntries(
    [...body.matchAll(/readonly (\w+)(\??):/g)].map(([, field = "", mark = ""]) => [field, mark]),
  );
}

for (const message of messageNames().filter((name) => name !== "ModelVersionPolicy.All")) {
  test(`completeWritten() makes what the type of ${message} promises`, () => {
    const expected = [...messageSpec(message).values()].map((field) => {
      const isMessage = field.shape === "single" && field.value.kind === "message";
      return [field.name, isMessage || field.choice !== undefined ? "?" : ""];
    });
    assert.deepEqual(fieldsOfInterface(message.replaceAll(".", "")), Object.fromEntries(expected));
  });
}

test("completeWritten() gives an empty configuration every default and no message", () => {
  assert.equal(
    JSON.stringify(completeWritten({})),
    JSON.stringify({
      name: "",
      platform: "",
      backend: "",
      runtime: "",
      max_batch_size: 0,
      input: [],
      output: [],
      batch_input: [],
      batch_output: [],
      instance_group: [],
      default_model_filename: "",
      cc_model_filenames: {},
      metric_tags: {},
      parameters: {},
      model_warmup: [],
    }),
  );
});

test("completeWritten() completes messages inside lists and maps", () => {
  const config = completeWritten({ input: [{ name: "x", reshape: {} }], parameters: { a: {} } });
  assert.equal(config.input[0]?.data_type, "TYPE_INVALID");
  assert.deepEqual(config.input[0]?.reshape, { shape: [] });
  assert.deepEqual(config.parameters.a, { string_value: "" });
});
