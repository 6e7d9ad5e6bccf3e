/** Features of a request beyond tokens: beams, sequences, logits, guides, logits post-processors. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { Tensor } from "../../core/tensor.ts";
import { loadTokenizer } from "../../formats/tokenizer/tokenizer-files.ts";
import type { BackendResponse } from "../backend.ts";
import {
  asIs,
  bool,
  type Call,
  call,
  EXAMPLES,
  FAKE,
  fp32,
  int32,
  notDecoupled,
  prompt,
  serve,
  text,
  values,
} from "./llm.test-support.ts";

type Ask = (prompt: string, maxTokens: number, ...more: Tensor[]) => Promise<string[]>;

/** The model proper and its tokenizer, asked in text; one text per beam. */
async function serveText(t: TestContext): Promise<Ask> {
  const { instance } = await serve(t, notDecoupled, {});
  const tokenizer = await loadTokenizer(`${EXAMPLES}nereid-tiny/language_model`);
  return async (query, maxTokens, ...more) => {
    const ids = [...tokenizer.encode(query, { addSpecialTokens: true })];
    const { responses, ended } = call(instance, prompt(ids, maxTokens, ...more));
    const error = await ended;
    if (error !== undefined) throw error;
    const { shape, values: tokens } = values(responses[0], "output_ids");
    const width = shape[2] ?? 0;
    return Array.from({ length: shape[1] ?? 0 }, (_, beam) =>
      tokenizer.decode(
        tokens.slice(beam * width, (beam + 1) * width).filter((id) => id >= 0),
        { skipSpecialTokens: true },
      ),
    );
  };
}

test("execute() gives beams as rows of their own, with their scores, best first", async (t) => {
  const { instance } = await serve(t, notDecoupled);
  const run = async (...more: Tensor[]): Promise<BackendResponse | undefined> => {
    const { responses, ended } = call(instance, prompt([3, 4], 6, ...more));
    assert.equal(await ended, undefined);
    return responses[0];
  };
  const beams = [int32("beam_width", [1], 3), bool("return_log_probs", [1], true)];
  const all = await run(...beams, bool("exclude_input_in_output", [1], false));
  assert.deepEqual(values(all, "output_ids").shape, [1, 3, 8]);
  assert.deepEqual(values(all, "sequence_length"), { shape: [1, 3], values: [8, 8, 8] });
  assert.deepEqual(values(all, "output_log_probs").shape, [1, 3, 6]);
  const scores = values(all, "cum_log_probs").values;
  assert.deepEqual(
    scores,
    [...scores].sort((a, b) => b - a),
  );
  for (let beam = 0; beam < 3; beam++) {
    const sum = values(all, "output_log_probs")
      .values.slice(beam * 6, beam * 6 + 6)
      .reduce((total, value) => total + value, 0);
    assert.equal(Math.abs(sum - (scores[beam] ?? 0)) < 1e-4, true);
    assert.deepEqual(values(all, "output_ids").values.slice(beam * 8, beam * 8 + 2), [3, 4]);
  }
  const two = await run(...beams, int32("num_return_sequences", [1], 2));
  assert.deepEqual(values(two, "output_ids").shape, [1, 2, 6]);
  assert.deepEqual(values(two, "cum_log_probs").values, scores.slice(0, 2));
  const quiet = await run(int32("beam_width", [1], 3), int32("early_stopping", [1], 0));
  assert.deepEqual(values(quiet, "cum_log_probs").values, [0, 0, 0]);
});

test("execute() answers each return sequence for itself, by its index and with draws of its own", async (t) => {
  const { instance } = await serve(t, asIs);
  const seed: Tensor = {
    name: "seed",
    datatype: "UINT64",
    shape: [1],
    data: new Uint8Array(BigUint64Array.of(7n).buffer),
  };
  const sampling = [int32("runtime_top_k", [1], 40), seed];
  const run = async (...more: Tensor[]): Promise<Map<number, string>> => {
    const { responses, ended } = call(instance, prompt([3, 4], 8, ...sampling, ...more));
    assert.equal(await ended, undefined);
    assert.equal(responses.filter(({ final }) => final).length, 1);
    return new Map(
      responses.map((each) => [
        values(each, "sequence_index").values[0] ?? -1,
        values(each, "output_ids").values.join(),
      ]),
    );
  };
  const four = await run(int32("num_return_sequences", [1], 4));
  assert.deepEqual([...four.keys()].sort(), [0, 1, 2, 3]);
  assert.equal(new Set(four.values()).size, 4);
  assert.deepEqual(await run(int32("num_return_sequences", [1], 4)), four);
  assert.equal((await run()).get(0), four.get(0));
});

test("execute() gives logits and top log-probabilities in the type and shape that are declared", async (t) => {
  const { instance } = await serve(t, (text) =>
    notDecoupled(text).replace(/(name: "context_logits"\s+data_type: TYPE_)FP32/, "$1FP16"),
  );
  const outputNames = [
    ...["output_ids", "context_logits", "generation_logits", "prompt_log_probs"],
    ...["top_log_prob_ids", "top_log_probs", "prompt_top_log_prob_ids", "prompt_top_log_probs"],
  ];
  const asked = [
    ...[bool("return_context_logits", [1], true), bool("return_generation_logits", [1], true)],
    ...[bool("return_prompt_log_probs", [1], true), int32("num_top_log_probs", [1], 2)],
  ];
  const { responses, ended } = call(instance, prompt([1, 2, 3], 4, ...asked), { outputNames });
  assert.equal(await ended, undefined);
  const shapes = new Map(responses[0]?.outputs.map(({ name, datatype, shape }) => [name, [datatype, ...shape]]));
  assert.deepEqual(
    outputNames.map((name) => shapes.get(name)),
    [
      ["INT32", 1, 1, 4],
      ["FP16", 1, 3, 64],
      ["FP32", 1, 1, 4, 64],
      ["FP32", 1, 2],
      ["INT32", 1, 4, 2],
      ["FP32", 1, 4, 2],
      ["INT32", 1, 2, 2],
      ["FP32", 1, 2, 2],
    ],
  );
  const ids = values(responses[0], "output_ids").values;
  const { values: logits } = values(responses[0], "generation_logits");
  for (const [i, id] of ids.entries()) {
    const row = logits.slice(i * 64, (i + 1) * 64);
    assert.equal(row.indexOf(Math.max(...row)), id);
    assert.equal(values(responses[0], "top_log_prob_ids").values[i * 2], id);
  }
  const streamed = await serve(t, asIs);
  const parts = call(streamed.instance, prompt([1, 2, 3], 4, ...asked, bool("streaming", [1], true)), { outputNames });
  assert.equal(await parts.ended, undefined);
  assert.deepEqual(
    parts.responses.flatMap((each) => values(each, "generation_logits").values),
    logits,
  );
  assert.equal(parts.responses.length, 4);
});

test("guided decoding and beams on the example model give texts of the form asked for", async (t) => {
  const ask = await serveText(t);
  const guide = (type: string, form: string): Tensor[] => [
    text("guided_decoding_guide_type", type),
    text("guided_decoding_guide", form),
  ];
  const sampling = [int32("runtime_top_k", [1], 50), fp32("temperature", [1], 1.3)];
  const [plain, ...guided] = await Promise.all([
    ask("The cat", 12),
    ask("The cat", 40, ...guide("regex", "[a-f]{3}-[0-9]{4}"), ...sampling),
    ask("The cat", 40, ...guide("choice", '["a red circle", "a blue square"]')),
    ask("The cat", 60, ...guide("ebnf_grammar", 'root ::= "<" [a-z]{2,5} ">"'), ...sampling),
    ask(
      "The cat",
      200,
      ...guide("json_schema", '{"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":3}'),
    ),
  ]);
  assert.deepEqual(plain, await ask("The cat", 12));
  assert.match(guided[0]?.[0] ?? "", /^[a-f]{3}-[0-9]{4}$/);
  assert.match(guided[1]?.[0] ?? "", /^a (red circle|blue square)$/);
  assert.match(guided[2]?.[0] ?? "", /^<[a-z]{2,5}>$/);
  assert.match(guided[3]?.[0] ?? "", /^\[/);
  const beams = await ask("The cat", 12, int32("beam_width", [1], 4));
  assert.equal(new Set(beams).size, 4);
  const [first = ""] = plain ?? [];
  const stop = first.slice(6, 9);
  const words = (await loadTokenizer(`${EXAMPLES}nereid-tiny/language_model`)).encode(stop, {
    addSpecialTokens: false,
  });
  const padding = new Array<number>(words.length - 1).fill(-1);
  const list = int32("stop_words_list", [1, 2, words.length], ...words, words.length, ...padding);
  const [cut = ""] = await ask("The cat", 12, list);
  assert.equal(first.startsWith(cut) && cut.includes(stop) && cut.length < first.length, true, `'${cut}' by '${stop}'`);
});

test("beams on the example model score what the model gives their whole texts, across cache blocks", async (t) => {
  const { instance } = await serve(t, notDecoupled, {});
  const query = [1, 300, 400, 500, 600, 700, 800];
  const search = call(instance, prompt(query, 40, int32("beam_width", [1], 4), bool("return_log_probs", [1], true)));
  assert.equal(await search.ended, undefined);
  const { shape, values: ids } = values(search.responses[0], "output_ids");
  const scores = values(search.responses[0], "cum_log_probs").values;
  assert.deepEqual(shape, [1, 4, 40]);
  for (let beam = 0; beam < 4; beam++) {
    const whole = [...query, ...ids.slice(beam * 40, (beam + 1) * 40)];
    const outputNames = ["prompt_log_probs"];
    const scored = call(instance, prompt(whole, 1, bool("return_prompt_log_probs", [1], true)), { outputNames });
    assert.equal(await scored.ended, undefined);
    const logProbs = values(scored.responses[0], "prompt_log_probs").values;
    const sum = logProbs.slice(query.length - 1).reduce((total, value) => total + value, 0);
    assert.equal(Math.abs(sum - (scores[beam] ?? 0)) < 1e-2, true, `beam ${beam}: ${scores[beam]}, its text ${sum}`);
  }
});

test("a module in the model's folder changes logits by the names it gives", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "nereid-hook-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(
    join(folder, "hook.mjs"),
    `export const logitsPostProcessors = {
      only: (logits) => { logits.fill(-Infinity, 0, 9); logits.fill(-Infinity, 10); },
      broken: () => { throw new Error("out of order"); },
    };`,
  );
  const withHook = (module: string) => (config: string) =>
    `${notDecoupled(config).replace("../../nereid-tiny", `${EXAMPLES}nereid-tiny`)}parameters { key: "logits_post_processor" value: { string_value: "${module}" } }`;
  const { instance } = await serve(t, withHook("hook.mjs"), FAKE, folder);
  const run = (name: string): Call => call(instance, prompt([1], 3, text("logits_post_processor_name", name)));
  const only = run("only");
  assert.equal(await only.ended, undefined);
  assert.deepEqual(values(only.responses[0], "output_ids").values, [9, 9, 9]);
  assert.match((await run("broken").ended)?.message ?? "", /logits post-processor 'broken' failed: out of order/);
  assert.match((await run("other").ended)?.message ?? "", /known are: 'only', 'broken'/);
  for (const [module, message] of [
    ["../hook.mjs", /parameter 'logits_post_processor' is '..\/hook.mjs', expected the path of a module inside/],
    ["none.mjs", /logits post-processor .*none.mjs cannot be loaded/],
  ] as const) {
    await assert.rejects(serve(t, withHook(module), FAKE, folder), message);
  }
});
