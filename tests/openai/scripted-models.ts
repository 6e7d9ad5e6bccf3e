/** Models in TypeScript that answer by rule, so that a test knows every word: their answers stand in the prompt. */
import { createModelRepository, type ModelRepository } from "../support/model-repository.ts";

const TEXT_MODEL = (name: string, more: string): string => `
name: "${name}"
backend: "typescript"
max_batch_size: 0
model_transaction_policy { decoupled: true }
input [ { name: "text_input" data_type: TYPE_STRING dims: [ 1 ] } ${more} ]
output [ { name: "text_output" data_type: TYPE_STRING dims: [ 1 ] } ]
`;

/** Gives the text of the last \`say:\` line back, word by word. */
const ECHO = `
export async function* execute({ inputs }) {
  const text = inputs.text_input.strings[0];
  const answer = /say:(.*)/s.exec(text.split("\\n").findLast((line) => line.includes("say:")) ?? "")?.[1] ?? text;
  for (const word of answer.trim().split(/(?<= )/)) yield { text_output: [word] };
}
`;

const STRICT =
  "say:{% for m in messages %}" +
  "{% if m.role == 'system' and not loop.first %}{{ raise_exception('System message must be first') }}{% endif %}" +
  "{% if loop.previtem is defined and loop.previtem.role == m.role %}{{ raise_exception('Roles must alternate') }}{% endif %}" +
  "[{{ m.role }}] {{ m.content | replace('\n', ' ') }} {% endfor %}";

/** Shows the JSON that reaches a model with inputs of its own for it. */
const MESSAGES = `
export async function* execute({ inputs }) {
  const format = inputs.response_format?.strings[0];
  yield { text_output: [JSON.stringify({ messages: JSON.parse(inputs.messages.strings[0]), user: inputs.user?.strings[0], format })] };
}
`;

/** Tells its temperature. */
const WARM = `
export async function* execute({ inputs }) {
  yield { text_output: [String(inputs.temperature?.data[0])] };
}
`;

/** One word every 20 ms until its client leaves; the log says how far it came. */
const SLOW = `
export async function* execute({ signal }, context) {
  let words = 0;
  try {
    for (; words < 500; words++) {
      if (signal.aborted) break;
      yield { text_output: ["word "] };
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  } finally {
    context.log.info("slow ended after " + words + " words");
  }
}
`;

const FAILS = `
export async function* execute(request, context) {
  yield { text_output: ["one "] };
  throw context.error("invalid_argument", "the script ends here");
}
`;

/** Flags that load only `echo`: each model of a server is a thread of its own. */
export const ONLY_ECHO: readonly string[] = ["--model-control-mode=explicit", "--load-model=echo"];

export function createScriptedModels(): Promise<ModelRepository> {
  return createModelRepository({
    files: {
      "echo/config.pbtxt": TEXT_MODEL("echo", ""),
      "echo/1/model.ts": ECHO,
      "caller/config.pbtxt": `${TEXT_MODEL("caller", "")}parameters { key: "tool_format" value: { string_value: "hermes" } }\nparameters { key: "reasoning_format" value: { string_value: "think" } }\n`,
      "caller/1/model.ts": ECHO,
      // Its template refuses what those of Mistral and Gemma refuse, and its prompt is one line.
      "strict/config.pbtxt": `${TEXT_MODEL("strict", "")}parameters { key: "chat_template" value: { string_value: ${JSON.stringify(STRICT)} } }\n`,
      "strict/1/model.ts": ECHO,
      "messages/config.pbtxt": TEXT_MODEL(
        "messages",
        ', { name: "messages" data_type: TYPE_STRING dims: [ 1 ] }, { name: "user" data_type: TYPE_STRING dims: [ 1 ] optional: true }, { name: "response_format" data_type: TYPE_STRING dims: [ 1 ] optional: true }',
      ),
      "messages/1/model.ts": MESSAGES,
      "warm/config.pbtxt": `${TEXT_MODEL("warm", ', { name: "temperature" data_type: TYPE_FP32 dims: [ 1 ] optional: true }')}parameters { key: "default_sampling" value: { string_value: "{\\"temperature\\": 0.25}" } }\n`,
      "warm/1/model.ts": WARM,
      "slow/config.pbtxt": TEXT_MODEL("slow", ""),
      "slow/1/model.ts": SLOW,
      "fails/config.pbtxt": TEXT_MODEL("fails", ""),
      "fails/1/model.ts": FAILS,
      "numbers/config.pbtxt":
        'name: "numbers"\nbackend: "identity"\nmax_batch_size: 0\ninput [ { name: "x" data_type: TYPE_FP32 dims: [ 1 ] } ]\noutput [ { name: "y" data_type: TYPE_FP32 dims: [ 1 ] } ]\n',
    },
  });
}
