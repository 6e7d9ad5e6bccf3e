import assert from "node:assert/strict";
import { test } from "node:test";
import { parseDecoderConfig } from "../config/parse-decoder-config.ts";
import { LLAMA, MIXTRAL, PHI } from "../cuda/record-pass.test-support.ts";
import { describeWeights, type WeightPlan } from "../weights/weight-plan.ts";
import type { DecoderOps, NormStep } from "./decoder-ops.ts";
import { walkDecoder } from "./walk-decoder.ts";

type Rows = string;
type Step = NormStep<string, Rows>;

/** Writes down each operation and its inputs; rows are known by the operation that gave them. */
class RecordedOps implements DecoderOps<string, Rows> {
  readonly lines: string[] = [];
  readonly logitRows: DecoderOps<string, Rows>["logitRows"];
  readonly fusedLayer: DecoderOps<string, Rows>["fusedLayer"];
  readonly handOn: DecoderOps<string, Rows>["handOn"];

  constructor(logitRows: "none" | "some" | "all", { isFused = false, handsOn = false } = {}) {
    this.logitRows = logitRows;
    this.fusedLayer = isFused ? (layer, attended) => this.#add(`fused${layer}`, attended) : undefined;
    this.handOn = handsOn ? (residual) => void this.#add("handOn", residual) : undefined;
  }

  embed = (): Rows => this.#add("embed");
  linear = (layer: number, name: string, _: unknown, x: Rows): Rows => this.#add(`${name}${layer}`, x);
  rotateAndStore = (layer: number, qkv: Rows): Rows => this.#add(`rotate${layer}`, qkv);
  attend = (layer: number, queries: Rows): Rows => this.#add(`attend${layer}`, queries);
  fillCache = (layer: number, qkv: Rows): void => void this.#add(`fill${layer}`, qkv);
  gatedLinear = (layer: number, _: unknown, x: Rows): Rows => this.#add(`gated${layer}`, x);
  activate = (x: Rows): Rows => this.#add("activate", x);
  experts = (_: unknown, x: Rows): Rows => this.#add("experts", x);

  addNorm(residual: Rows, { norm, reader, branch }: Step): { residual: Rows; normed: Rows } {
    const of = branch === undefined ? residual : this.#add("sum", residual, branch);
    return { residual: of, normed: this.#add(`${norm?.weight} for ${reader?.weight ?? "experts"}`, of) };
  }

  joinBranches(residual: Rows, attention: Rows, mlp: Rows, step: Step): { residual: Rows; normed: Rows } {
    return this.addNorm(residual, { ...step, branch: this.#add("join", attention, mlp) });
  }

  keepRows(residual: Rows, attended: Rows): { residual: Rows; attended: Rows } {
    return { residual: this.#add("keep", residual), attended: this.#add("keep", attended) };
  }

  #add(name: string, ...inputs: readonly Rows[]): Rows {
    this.lines.push([name, ...inputs].join(" < "));
    return name;
  }
}

function walk(
  config: object,
  ops: RecordedOps,
): { readonly lines: readonly string[]; readonly result: Rows | undefined } {
  const at = { config: "test", generation: "test" };
  const parsed = parseDecoderConfig({ config: { ...config, num_hidden_layers: 2 }, generation: undefined, at });
  // Each tensor by the module of its first source.
  const nameOf = ({ sources }: WeightPlan): string => sources[0]?.name.split(".").at(-2) ?? "";
  const weights = describeWeights(parsed.config, parsed.weights, "", nameOf);
  const result = walkDecoder(ops, { config: parsed.config, weights });
  return { lines: ops.lines, result };
}

test("walkDecoder() adds attention before the MLP in sequential blocks", () => {
  const { lines, result } = walk(LLAMA, new RecordedOps("all"));
  assert.deepEqual(lines.slice(0, 13), [
    "embed",
    "input_layernorm for q_proj < embed",
    "qkv0 < input_layernorm for q_proj",
    "rotate0 < qkv0",
    "attend0 < rotate0",
    "oProj0 < attend0",
    "sum < embed < oProj0",
    "post_attention_layernorm for gate_proj < sum",
    "gated0 < post_attention_layernorm for gate_proj",
    "mlpOut0 < gated0",
    "sum < sum < mlpOut0",
    "input_layernorm for q_proj < sum",
    "qkv1 < input_layernorm for q_proj",
  ]);
  assert.equal(lines.at(-1), "norm for lm_head < sum");
  assert.equal(result, "norm for lm_head");
});

test("walkDecoder() gives experts rows that are in no form of a linear layer", () => {
  const { lines } = walk(MIXTRAL, new RecordedOps("all"));
  assert.deepEqual(lines.slice(7, 9), [
    "post_attention_layernorm for experts < sum",
    "experts < post_attention_layernorm for experts",
  ]);
});

test("walkDecoder() keeps rows behind the last attention, and of parallel blocks normalizes them once more", () => {
  const sequential = walk(LLAMA, new RecordedOps("some")).lines;
  const keptAt = sequential.indexOf("attend1 < rotate1") + 1;
  assert.deepEqual(sequential.slice(keptAt, keptAt + 3), ["keep < sum", "keep < attend1", "oProj1 < keep"]);
  const parallel = walk(PHI, new RecordedOps("some")).lines;
  const normed = "input_layernorm for q_proj";
  assert.deepEqual(parallel.slice(parallel.indexOf("attend1 < rotate1") + 1), [
    "keep < sum",
    "keep < attend1",
    `${normed} < keep`,
    "oProj1 < keep",
    `mlpIn1 < ${normed}`,
    "activate < mlpIn1",
    "mlpOut1 < activate",
    "join < oProj1 < mlpOut1",
    "sum < keep < join",
    "final_layernorm for lm_head < sum",
  ]);
});

test("walkDecoder() ends with the cache when no logits are wanted", () => {
  const { lines, result } = walk(LLAMA, new RecordedOps("none"));
  assert.equal(lines.at(-1), "fill1 < qkv1");
  assert.equal(result, undefined);
});

test("walkDecoder() computes every row of a stage that hands on, and its last layer without logits too", () => {
  for (const [logitRows, result] of [
    ["none", undefined],
    ["some", "norm for lm_head"],
  ] as const) {
    const walked = walk(LLAMA, new RecordedOps(logitRows, { handsOn: true }));
    assert.deepEqual(walked.lines.slice(-3), ["sum < sum < mlpOut1", "norm for lm_head < sum", "handOn < sum"]);
    assert.equal(walked.result, result);
  }
});

test("walkDecoder() projects once where a kernel computes all between two attentions", () => {
  const { lines } = walk(LLAMA, new RecordedOps("all", { isFused: true }));
  assert.deepEqual(lines.slice(2), [
    "qkv0 < input_layernorm for q_proj",
    "rotate0 < qkv0",
    "attend0 < rotate0",
    "fused0 < attend0",
    "rotate1 < fused0",
    "attend1 < rotate1",
    "fused1 < attend1",
    "norm for lm_head < embed",
  ]);
});
