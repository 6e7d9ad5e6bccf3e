/**
 * A chat model that answers by rule: with the text behind the last `say:`, in pieces of three characters, or with its
 * prompt when the last message is `show prompt`. Its calls and its reasoning are those of Hermes and Qwen.
 */
import { createModelRepository, type ModelRepository } from "./model-repository.ts";

const CONFIG = `
name: "script"
backend: "typescript"
max_batch_size: 0
model_transaction_policy { decoupled: true }
input [ { name: "text_input" data_type: TYPE_STRING dims: [ 1 ] }, { name: "image" data_type: TYPE_STRING dims: [ -1 ] optional: true } ]
output [ { name: "text_output" data_type: TYPE_STRING dims: [ 1 ] } ]
parameters { key: "chat_template" value { string_value: "template.jinja" } }
parameters { key: "tool_format" value { string_value: "hermes" } }
parameters { key: "reasoning_format" value { string_value: "think" } }
`;

const TEMPLATE = `
{%- for tool in tools or [] %}tool {{ tool.function.name }} {{ tool.function.parameters | tojson }}{{ "\\n" }}{% endfor %}
{%- for m in messages %}<|{{ m.role }}|>{{ m.name or "" }}
{%- if m.content is string %}{{ m.content }}{% else %}{% for p in m.content or [] %}{{ p.text if p.type == "text" else "<image>" }}{% endfor %}{% endif %}
{%- for c in m.tool_calls or [] %}[{{ c.function | tojson }}]{% endfor %}{{ "\\n" }}{% endfor %}
{%- if add_generation_prompt %}<|assistant|>thinking={{ enable_thinking or false }}{% endif %}`;

const MODEL = `
export async function* execute({ inputs }) {
  const prompt = inputs.text_input.strings[0];
  const said = prompt.split("say:").at(-1).split("\\n<|assistant|>")[0].trim();
  const images = inputs.image?.strings.length ?? 0;
  const isCut = /<\\/think>\\n\\n$/.test(prompt);
  const answer = isCut ? "Enough." : /show prompt\\n<\\|assistant\\|>[^\\n]*$/.test(prompt) ? prompt + " images=" + images : said;
  for (const piece of answer.match(/[^]{1,3}/g) ?? []) yield { text_output: [piece] };
}
`;

/** The caller disposes of it. */
export function createScriptedChat(): Promise<ModelRepository> {
  return createModelRepository({
    files: { "script/config.pbtxt": CONFIG, "script/template.jinja": TEMPLATE, "script/1/model.ts": MODEL },
  });
}
