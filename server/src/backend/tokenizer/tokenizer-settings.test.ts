import assert from "node:assert/strict";
import { test } from "node:test";
import { parseModelConfigText } from "../../config/model/model-config.ts";
import { ServerError } from "../../core/server-error.ts";
import { parseTokenizerSettings } from "./tokenizer-settings.ts";

// biome-ignore lint/suspicious/noTemplateCurlyInString: what a template that nobody filled in looks like
const PLACEHOLDER = "${tokenizer_dir}";

type Source = Parameters<typeof parseTokenizerSettings>[0];

const DIRECTORIES: readonly (readonly [directory: string | undefined, folders: readonly string[]])[] = [
  [undefined, ["/models/pre", "/models/pre/1"]],
  ["", ["/models/pre", "/models/pre/1"]],
  [PLACEHOLDER, ["/models/pre", "/models/pre/1"]],
  ["../../llama", ["/llama", "/models/llama"]],
  ["/weights/llama", ["/weights/llama"]],
];

for (const [directory, folders] of DIRECTORIES) {
  test(`\`parseTokenizerSettings()\` looks for tokenizer_dir ${directory ?? "not given"} beside the model and the version`, () => {
    const parameters = directory === undefined ? {} : { tokenizer_dir: directory };
    assert.deepEqual(parseTokenizerSettings(modelSource(["QUERY"], parameters)).folders, folders);
  });
}

const FLAGS: readonly (readonly [value: string, meaning: boolean])[] = [
  ["true", true],
  ["True", true],
  ["1", true],
  ["y", true],
  [PLACEHOLDER, true],
  ["false", false],
  ["FALSE", false],
  ["no", false],
  ["0", false],
];

for (const [value, meaning] of FLAGS) {
  test(`\`parseTokenizerSettings()\` reads the flag ${value} as ${meaning}`, () => {
    const parameters = { skip_special_tokens: value, add_special_tokens: value };
    const settings = parseTokenizerSettings(modelSource(["TOKENS_BATCH"], parameters));
    assert.deepEqual([settings.skipSpecialTokens, settings.addSpecialTokens], [meaning, meaning]);
    assert.equal(settings.role, "postprocessing");
  });
}

const REFUSED: readonly (readonly [inputs: readonly string[], parameters: Record<string, string>, message: RegExp])[] =
  [
    [["INPUT0"], {}, /expects an input 'QUERY' .* got inputs \[INPUT0\]/],
    [["QUERY"], { add_special_tokens: "maybe" }, /parameter 'add_special_tokens' is 'maybe', expected true or false/],
  ];

for (const [inputs, parameters, message] of REFUSED) {
  test(`\`parseTokenizerSettings()\` refuses with ${message}`, () => {
    assert.throws(
      () => parseTokenizerSettings(modelSource(inputs, parameters)),
      (error) => error instanceof ServerError && message.test(error.message),
    );
  });
}

function modelSource(inputs: readonly string[], parameters: Readonly<Record<string, string>>): Source {
  const text = [
    'name: "pre"',
    ...inputs.map((name) => `input { name: "${name}" data_type: TYPE_STRING dims: [ 1 ] }`),
    ...Object.entries(parameters).map(
      ([key, value]) => `parameters { key: "${key}" value { string_value: "${value}" } }`,
    ),
  ].join("\n");
  return {
    config: parseModelConfigText(text, "config.pbtxt"),
    modelFolder: "/models/pre",
    versionFolder: "/models/pre/1",
  };
}
