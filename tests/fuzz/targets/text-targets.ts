/** Readers of text that comes with models: tokenizers, chat templates, model configurations. */
import assert from "node:assert/strict";
import { createTemplate } from "../../../server/src/chat/template/chat-template.ts";
import {
  emptyModelConfig,
  parseModelConfigJson,
  parseModelConfigText,
  prepareModelConfig,
} from "../../../server/src/config/model/model-config.ts";
import { createTokenizer } from "../../../server/src/formats/tokenizer/tokenizer.ts";
import { corpusFiles } from "../corpus-files.ts";
import { type FuzzTarget, isPlainRefusal, isServerError } from "../fuzz-target.ts";
import { mutateJsonOrValue, mutateJsonValue } from "../mutators/mutate-json-or-value.ts";
import { textMutator } from "../mutators/mutate-text.ts";

const MAX_CASE_MS = 100;
/** A template has a budget of a fifth of a second. */
const MAX_TEMPLATE_MS = 1000;

const TEXTS: readonly string[] = [
  "Hello, world! 123 \n\n tab\t\u00e9\u4e16\ud83d\ude00 <s>don't</s>",
  `${"a".repeat(40)}!`,
  "",
];

const tokenizers: FuzzTarget = {
  name: "tokenizer-json",
  seeds: corpusFiles("tokenizer"),
  mutate: mutateJsonValue,
  read: (input) => {
    const tokenizer = createTokenizer({ tokenizer: JSON.parse(input.toString()), config: { eos_token: "</s>" } });
    for (const text of TEXTS) {
      const ids = tokenizer.encode(text, { addSpecialTokens: true });
      assert.ok(ids.every((id) => id >= 0));
      assert.equal(typeof tokenizer.decode(ids, { skipSpecialTokens: false }), "string");
    }
  },
  isRefusal: (error) => isPlainRefusal(error) || isServerError(error),
  maxCaseMs: MAX_CASE_MS,
};

const TEMPLATE_WORDS: readonly string[] = (
  "{{ }} {% %} {%- -%} {# #} for in if elif else endif endfor set endset macro endmacro call endcall filter endfilter generation " +
  "endgeneration break continue not and or is defined none None true false loop.index loop.last loop.previtem messages message " +
  "message.role message['content'] tools tool.function.arguments bos_token eos_token add_generation_prompt raise_exception range " +
  "namespace strftime_now dict joiner cycler lipsum self super __class__ __proto__ constructor prototype | trim tojson length upper " +
  "join replace split items selectattr map list sort unique batch slice dictsort groupby indent format string int float first last " +
  "default safe reverse sum min max abs round [ ] ( ) . , : = == != < > <= >= + - * / // % ** ~ 0 1 -1 1e308 9999999999 2.5 'x' \"y\" '' " +
  "'%s' '%999999d' '{}' '\\n'"
).split(" ");

const VARIABLES = {
  messages: [
    { role: "system", content: "be short" },
    { role: "user", content: "hi" },
    { role: "assistant", content: "", tool_calls: [{ function: { name: "f", arguments: { a: [1, "x"] } } }] },
  ],
  tools: [{ type: "function", function: { name: "f", parameters: { type: "object", properties: {} } } }],
  addGenerationPrompt: true,
};

const templates: FuzzTarget = {
  name: "chat-template",
  seeds: corpusFiles("templates"),
  mutate: textMutator(TEMPLATE_WORDS),
  read: async (input) => {
    const template = createTemplate({ text: input.toString("utf8"), bosToken: "<s>", eosToken: "</s>" });
    const text = await template.render(VARIABLES as never);
    assert.equal(typeof text, "string");
    assert.equal(({} as Record<string, unknown>).polluted, undefined);
  },
  isRefusal: isServerError,
  maxCaseMs: MAX_TEMPLATE_MS,
};

const CONFIG_WORDS: readonly string[] = (
  "name platform backend max_batch_size input output data_type dims reshape shape label_filename is_shape_tensor optional format " +
  "version_policy latest num_versions specific versions all instance_group kind KIND_CPU KIND_GPU count gpus profile passive rate_limiter " +
  "resources global priority dynamic_batching preferred_batch_size max_queue_delay_microseconds priority_levels default_priority_level " +
  "priority_queue_policy key value default_queue_policy timeout_action DELAY allow_timeout_override sequence_batching control_input control " +
  "CONTROL_SEQUENCE_START int32_false_true oldest direct state initial_state zero_data ensemble_scheduling step model_name model_version " +
  "input_map output_map model_warmup inputs random_data parameters string_value optimization graph level cuda model_transaction_policy " +
  'decoupled response_cache enable metric_tags cc_model_filenames TYPE_INT32 TYPE_STRING TYPE_FP16 { } [ ] < > : , ; - + "a" \'b\' "\u0024{x}" ' +
  '\u0024{x} 0 1 -1 2147483648 4294967296 18446744073709551616 9223372036854775807 1e400 0x10 010 nan inf true false # \\ "\\777" "\\xzz" "\\u12" "unended'
).split(" ");

const configurations: FuzzTarget = {
  name: "config-pbtxt",
  seeds: corpusFiles("pbtxt"),
  mutate: textMutator(CONFIG_WORDS),
  read: (input) => {
    const written = parseModelConfigText(input.toString("utf8"), "config.pbtxt");
    const prepared = prepareModelConfig({
      written: { ...written, name: "" },
      modelName: "m",
      artifacts: [],
      autoComplete: false,
    });
    // The same configuration by the other way into the server.
    assert.equal(parseModelConfigJson(JSON.stringify({ name: prepared.name })).name, "m");
  },
  isRefusal: isServerError,
  maxCaseMs: MAX_CASE_MS,
};

const JSON_CONFIG: string = JSON.stringify({
  name: "m",
  backend: "identity",
  max_batch_size: 4,
  input: [{ name: "I", data_type: "TYPE_INT32", dims: ["4", 2], reshape: { shape: [8] } }],
  output: [{ name: "O", data_type: "TYPE_STRING", dims: [1], label_filename: "l.txt" }],
  instance_group: [{ kind: "KIND_CPU", count: 2, rate_limiter: { resources: [{ name: "r", count: 1 }] } }],
  dynamic_batching: { preferred_batch_size: [2, 4], max_queue_delay_microseconds: "100" },
  parameters: { a: { string_value: "b" } },
  version_policy: { specific: { versions: [1, "2"] } },
});

const overrides: FuzzTarget = {
  name: "config-json",
  seeds: [
    Buffer.from(JSON_CONFIG),
    Buffer.from(JSON.stringify({ ...emptyModelConfig(), name: "m", backend: "identity" })),
  ],
  mutate: mutateJsonOrValue,
  read: (input) => {
    const written = parseModelConfigJson(input.toString("utf8"));
    prepareModelConfig({ written, modelName: written.name, artifacts: [], autoComplete: true });
  },
  isRefusal: isServerError,
  maxCaseMs: MAX_CASE_MS,
};

export const TEXT_TARGETS: readonly FuzzTarget[] = [tokenizers, templates, configurations, overrides];
