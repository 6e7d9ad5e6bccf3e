import assert from "node:assert/strict";
import test from "node:test";
import { ServerError } from "../../core/server-error.ts";
import { createTemplate } from "./chat-template.ts";

async function render(text: string, variables: Record<string, unknown> = {}): Promise<string> {
  return createTemplate({ text }).render({ messages: [], addGenerationPrompt: false, ...variables });
}

test("messages, tools, special tokens and further variables reach the template", async () => {
  const text =
    "{{ bos_token }}{{ pad_token }}{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}{{ tools[0].function.name }}" +
    "{{ add_generation_prompt }}{{ enable_thinking }}{{ documents }}{{ eos_token }}";
  const template = createTemplate({ text, bosToken: "<s>", eosToken: "</s>", tokens: { pad_token: "<p>" } });
  const prompt = await template.render({
    messages: [{ role: "user", content: "Hi" }],
    tools: [{ type: "function", function: { name: "f" } }],
    addGenerationPrompt: true,
    enable_thinking: false,
  });
  assert.equal(prompt, "<s><p>user:Hi;fTrueFalseNone</s>");
});

test("a template's own exception is the refusal of the request", async () => {
  const refusal = { code: "invalid_argument", message: "roles must alternate" };
  await assert.rejects(render("{{ raise_exception('roles must alternate') }}"), refusal);
});

test("a template that cannot be parsed is refused when it is made", () => {
  const fault = { code: "invalid_argument", message: /^the template cannot be parsed: / };
  for (const text of ["{% if %}", "{{ 1 +", "{% nosuch %}", "{% for x in y %}"]) {
    assert.throws(() => createTemplate({ text }), fault, text);
  }
});

/** Lists that are their own neighbours: few to keep, without end to walk. */
const shared = (use: string): string =>
  `{% set ns = namespace(t=[1], u=[1]) %}{% for i in range(60) %}{% set ns.t = [ns.t, ns.t] %}{% set ns.u = [ns.u, ns.u] %}{% endfor %}${use}`;

const long = (use: string): string =>
  `{% set x = 'a' * 4000000 %}{% set z = '\u{1f600}' * 2000000 %}{% set l = range(100000)|list %}{% for i in range(3000) %}${use}{% endfor %}`;

const HOSTILE: readonly (readonly [what: string, text: string])[] = [
  ["endless loops", "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}"],
  ["a huge range", "{% for a in range(10 ** 12) %}{% endfor %}"],
  [
    "doubled text",
    "{% set ns = namespace(t='aaaaaaaa') %}{% for i in range(60) %}{% set ns.t = ns.t + ns.t %}{% endfor %}{{ ns.t }}",
  ],
  ["repeated text", "{{ 'a' * 10 ** 12 }}"],
  ["repeated lists", "{{ ([1] * 10 ** 12)|length }}"],
  ["replaced text", "{% set x = 'a' * 100000 %}{{ x.replace('a', x) }}"],
  ["padded text", "{{ 'a'.rjust(10 ** 12) }}"],
  ["joined text", "{% set x = 'a' * 1000000 %}{{ ([x] * 1000)|join(x) }}"],
  ["doubled lists", "{% set ns = namespace(t=[1]) %}{% for i in range(60) %}{% set ns.t = ns.t + ns.t %}{% endfor %}"],
  ["endless recursion", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"],
  ["mutual recursion", "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}"],
  [
    "doubling output",
    "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% else %}aaaaaaaaaa{% endif %}{% endmacro %}{{ f(40) }}",
  ],
  ["deep nesting", `{{ ${"(".repeat(20_000)}1${")".repeat(20_000)} }}`],
  ["shared values that print", shared("{{ ns.t }}")],
  ["shared values as JSON", shared("{{ ns.t|tojson }}")],
  ["shared values that are compared", shared("{{ ns.t == ns.u }}")],
  ["slices of long text", long("{% set y = x[1:] %}")],
  ["slices of long text with pairs", long("{% set y = z[1:] %}")],
  ["characters of long text", long("{{ x[0] }}")],
  ["loops over long text", long("{% for c in x %}{% break %}{% endfor %}")],
  ["searches of long lists", long("{{ 'q' in l }}")],
  [
    "shared lists that are counted",
    "{% set y = [[1] * 1000] * 1000 %}{% for i in range(100) %}{{ y.count(y[0]) }}{% endfor %}",
  ],
  [
    "deep values",
    "{% set ns = namespace(t=[]) %}{% for i in range(100000) %}{% set ns.t = [ns.t] %}{% endfor %}{{ ns.t }}",
  ],
];

for (const [what, text] of HOSTILE) {
  test(`${what} end in a refusal`, async () => {
    await assert.rejects(async () => render(text), { code: "invalid_argument" });
  });
}

test("no name and no member leads out of the data", async () => {
  const names = [
    "constructor",
    "__proto__",
    "prototype",
    "toString",
    "hasOwnProperty",
    "globalThis",
    "process",
    "require",
  ];
  for (const name of names) {
    assert.equal(await render(`{{ ${name} is defined }}`), "False", name);
    for (const value of ["messages", "'text'", "1", "m", "range", "namespace()", "true"]) {
      assert.equal(
        await render(`{{ (${value})['${name}'] is defined }}`, { m: { a: 1 } }),
        "False",
        `${value}.${name}`,
      );
    }
  }
  assert.equal(await render("{{ m.constructor }}", { m: { constructor: "a member" } }), "a member");
});

test("the data of the caller stays as it is", async () => {
  const messages = [{ role: "user", content: "Hi" }];
  await render("{% set messages = messages + [{'role': 'system'}] %}{% set x = messages[0] %}{{ x }}", { messages });
  assert.deepEqual(messages, [{ role: "user", content: "Hi" }]);
});

test("render() refuses filters and tests that are no names", async () => {
  for (const text of ["{{ 'a' | trim . upper }}", "{{ 'a' | x[0] }}", "{{ 'a' | trim().x }}", "{{ 'a' is x.y }}"]) {
    const rendering = (async () => createTemplate({ text }).render({ messages: [], addGenerationPrompt: false }))();
    await assert.rejects(rendering, (error) => error instanceof ServerError && error.code === "invalid_argument", text);
  }
});
