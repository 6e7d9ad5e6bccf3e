/** Limits of any inference request, of traces and of language models. */

import { readFileSync } from "node:fs";
import { FOLDER } from "../../server/src/backend/llm/llm.test-support.ts";
import { parseLlmSettings } from "../../server/src/backend/llm/llm-settings.ts";
import { readRow } from "../../server/src/backend/llm/read-row.ts";
import { encodeTexts } from "../../server/src/backend/tokenizer/encode-texts.ts";
import { wordLists } from "../../server/src/backend/tokenizer/word-lists.ts";
import { Budget } from "../../server/src/chat/template/budget.ts";
import type { Tensor } from "../../server/src/core/tensor.ts";
import { canonicalVersion } from "../../server/src/core/version-text.ts";
import { LogitsBudget } from "../../server/src/engine/plan/logits-budget.ts";
import { checkRequest, type RequestLimits } from "../../server/src/engine/request/check-request.ts";
import type { GenerateRequest } from "../../server/src/engine/request/generate.ts";
import { createTokenizer, type Tokenizer } from "../../server/src/formats/tokenizer/tokenizer.ts";
import { readTraceParent } from "../../server/src/observe/trace/trace-parent.ts";
import { createTraceTree, type TraceNode } from "../../server/src/observe/trace/trace-record.ts";
import { tensorText } from "../../server/src/observe/trace/trace-tensor-text.ts";
import { classify } from "../../server/src/protocol/classification.ts";
import { readRequestParameters } from "../../server/src/protocol/grpc/infer/infer-parameters.ts";
import { SharedMemoryRegions } from "../../server/src/protocol/shared-memory.ts";
import { writeOverrideFolder } from "../../server/src/repository/source/override-folder.ts";
import { checkSequenceRequest } from "../../server/src/scheduler/sequence/rules.ts";
import { fakeRequest, int32 } from "../fakes/requests.ts";
import { bytesTensor, fakeSource } from "../fakes/run-instance.ts";
import { SharedMemoryObject } from "../fakes/shared-memory-object.ts";
import type { LimitRow } from "./limit-row.ts";

const CONFIG = readFileSync(`${FOLDER}/config.pbtxt`, "utf8");
const WITH_DRAFTS = (count: number): string => `${CONFIG}
parameters { key: "speculative_ngram_size" value { string_value: "3" } }
parameters { key: "num_draft_tokens" value { string_value: "${count}" } }`;

function readLlmRow(more: readonly Tensor[] = []): GenerateRequest {
  const inputs = [int32("input_ids", [1, 1], [1]), int32("request_output_len", [1, 1], [1]), ...more];
  return readRow(fakeRequest(inputs), 0, 1, parseLlmSettings(fakeSource(CONFIG, FOLDER))).generate;
}

function check(changes: Partial<GenerateRequest>, limits: Partial<RequestLimits> = {}): void {
  const all = { vocabSize: 1000, hiddenSize: 8, maxSequenceLength: 100_000, ...limits };
  checkRequest({ ...readLlmRow(), ...changes }, all);
}

const word = (length: number): Int32Array => new Int32Array(length).fill(1);

function retention(count: number, priority: number): Pick<GenerateRequest, "retention"> {
  const ranges = Array.from({ length: count }, (_, i) => ({ start: i, end: i + 1, priority, durationMs: 1 }));
  return { retention: { ranges, decode: { priority, durationMs: 1 } } };
}

function registerRegions(count: number): void {
  using object = new SharedMemoryObject(Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8));
  const regions = new SharedMemoryRegions(true);
  try {
    for (let i = 0; i < count; i++) regions.register(`r${i}`, object.key, 0n, 8n);
  } finally {
    regions.unregister("");
  }
}

function registerRegion(numBytes: number): void {
  using object = new SharedMemoryObject(numBytes);
  const regions = new SharedMemoryRegions(true);
  regions.register("r", object.key, 0n, BigInt(numBytes));
  regions.unregister("");
}

function drain<T>(steps: Generator<undefined, T, undefined>): T {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** One id, whatever the text is. */
const SHORT_TOKENIZER = {
  *encodeSteps() {
    yield undefined;
    return Int32Array.of(1);
  },
  padId: 0,
} as unknown as Tokenizer;

function encodeText(numBytes: number): void {
  const model = {
    tokenizer: SHORT_TOKENIZER,
    input: "TEXT",
    addSpecialTokens: false,
    isBatching: false,
    outputs: new Map(),
    maxLength: 8,
    padMultiple: 1,
  };
  drain(encodeTexts(model, fakeRequest([bytesTensor("TEXT", [1], ["a".repeat(numBytes)])]), 1));
}

const UNIGRAM = {
  added_tokens: [{ id: 0, content: "<unk>", special: true }],
  normalizer: null,
  pre_tokenizer: { type: "WhitespaceSplit" },
  post_processor: null,
  decoder: null,
  model: {
    type: "Unigram",
    unk_id: 0,
    vocab: [
      ["<unk>", 0],
      ["h", -1],
    ],
  },
};

/** Traces of requests that a model makes, kept in one tree. */
function traceTree(count: number): number {
  let kept: readonly TraceNode[] = [];
  const root = createTraceTree("m", {
    nextId: () => 1,
    keepsMoments: true,
    keepsTensors: false,
    contextOf: () => undefined,
    onComplete: (nodes) => {
      kept = nodes;
    },
  });
  const children = Array.from({ length: count - 1 }, () => root.child("m"));
  for (const child of children) child.begin("1", "", 0);
  for (const child of children) child.end();
  root.end();
  return kept.length;
}

function traceMoments(count: number): number {
  let kept: readonly TraceNode[] = [];
  const root = createTraceTree("m", {
    nextId: () => 1,
    keepsMoments: true,
    keepsTensors: false,
    contextOf: () => undefined,
    onComplete: (nodes) => {
      kept = nodes;
    },
  });
  for (let i = 0; i < count; i++) root.mark("COMPUTE_START", i);
  root.end();
  return kept[0]?.moments.length ?? 0;
}

const PARENT = `00-${"1".repeat(32)}-${"2".repeat(16)}-01`;

/** A state that is too long is left out as a whole. */
function traceState(count: number): number {
  const headers = new Map([
    ["traceparent", PARENT],
    ["tracestate", "a".repeat(count)],
  ]);
  const state = readTraceParent({ header: (name) => headers.get(name) })?.state ?? "";
  return state === "" ? count - 1 : state.length;
}

function nestMacros(depth: number): void {
  const budget = new Budget();
  const nest = (left: number): void => {
    if (left > 0) budget.nested(() => nest(left - 1));
  };
  nest(depth);
}

const INVALID = "invalid_argument";

export const REQUEST_ROWS: readonly LimitRow[] = [
  {
    name: "MAX_VERSION_DIGITS",
    value: 64,
    run: (count) => canonicalVersion("1".padStart(count, "0")),
    status: INVALID,
    says: /^failed to get model version from specified version string '0+1' \(details: stol\)/,
  },
  {
    name: "MAX_CLASSIFICATION_ELEMENTS",
    value: 1_000_000,
    run: (count) =>
      classify({ name: "Y", datatype: "INT8", shape: [count], data: new Uint8Array(count) }, 1, false, () => undefined),
    status: INVALID,
    says: /^classification output tensor too large$/,
  },
  {
    name: "MAX_CORRELATION_ID_BYTES",
    value: 128,
    run: (count) => readRequestParameters(new Map([["sequence_id", { kind: "string", value: "a".repeat(count) }]])),
    status: "unsupported",
    says: "limit",
  },
  {
    name: "MAX_CORRELATION_ID_BYTES",
    value: 128,
    run: (count) => {
      const sequence = { id: "a".repeat(count), start: true, end: false };
      checkSequenceRequest(fakeRequest([], { sequence }), 1, "m", undefined);
    },
    status: "unsupported",
    says: "limit",
  },
  {
    name: "MAX_OVERRIDE_DEPTH",
    value: 32,
    run: (count) => {
      const path = `${"a/".repeat(count - 1)}x`;
      writeOverrideFolder("m", new Map([[path, new Uint8Array(1)]]))[Symbol.dispose]();
    },
    status: INVALID,
    says: "both",
  },
  { name: "MAX_SHARED_MEMORY_REGIONS", value: 4096, run: registerRegions, status: INVALID, says: "limit" },
  { name: "MAX_SHARED_MEMORY_REGION_BYTES", value: 4_294_967_296, run: registerRegion, status: INVALID, says: "both" },
  {
    name: "MAX_TRACED_ELEMENTS",
    value: 65_536,
    run: (count) =>
      tensorText({ name: "X", datatype: "UINT8", shape: [count], data: new Uint8Array(count) }).data.split(",").length,
    status: "left out",
    says: /^$/,
  },
  { name: "MAX_TRACE_MOMENTS", value: 16_384, run: traceMoments, status: "left out", says: /^$/ },
  { name: "MAX_TREE_TRACES", value: 4096, run: traceTree, status: "left out", says: /^$/ },
  { name: "MAX_TRACE_STATE_CHARS", value: 512, run: traceState, status: "left out", says: /^$/ },
  {
    name: "MAX_LLM_WORDS",
    value: 4096,
    run: (count) => check({ stopWords: Array.from({ length: count }, () => word(1)) }),
    status: INVALID,
    says: "both",
  },
  {
    name: "MAX_LLM_WORDS",
    value: 4096,
    run: (count) => wordLists("W", [new Array<string>(count).fill("a")], () => word(1)),
    status: INVALID,
    says: "both",
  },
  {
    name: "MAX_LLM_WORD_TOKENS",
    value: 65_536,
    run: (count) => check({ badWords: [word(count)] }),
    status: INVALID,
    says: "both",
  },
  {
    name: "MAX_LLM_WORD_TOKENS",
    value: 65_536,
    run: (count) => wordLists("W", [["a"]], () => word(count)),
    status: INVALID,
    says: "both",
  },
  {
    name: "MAX_LLM_WORD_BYTES",
    value: 262_144,
    run: (count) => wordLists("W", [["a".repeat(count)]], () => word(1)),
    status: INVALID,
    says: "both",
  },
  {
    name: "MAX_LLM_BEAMS",
    value: 64,
    run: (count) => check({ beamWidth: count, numReturnBeams: 1 }),
    status: INVALID,
    says: "both",
  },
  {
    name: "MAX_LLM_TOP_LOG_PROBS",
    value: 100,
    run: (count) => check({ topLogProbs: count }),
    status: INVALID,
    says: "both",
  },
  {
    name: "MAX_LLM_LOGITS_BYTES",
    value: 268_435_456,
    run: (count) => check({ contextLogits: true }, { vocabSize: count / 4 }),
    status: INVALID,
    says: "both",
    step: 4,
  },
  {
    name: "MAX_ENGINE_LOGITS_BYTES",
    value: 536_870_912,
    run: (count) => new LogitsBudget().check(count),
    status: "unavailable",
    says: "both",
  },
  {
    name: "MAX_LLM_DRAFT_TOKENS",
    value: 64,
    run: (count) => parseLlmSettings(fakeSource(WITH_DRAFTS(count), FOLDER)),
    status: INVALID,
    says: "both",
  },
  {
    name: "MAX_LLM_RETURN_SEQUENCES",
    value: 256,
    run: (count) => readLlmRow([int32("num_return_sequences", [1, 1], [count])]),
    status: INVALID,
    says: "both",
  },
  {
    name: "MAX_LLM_RETENTION_RANGES",
    value: 1024,
    run: (count) => check(retention(count, 1)),
    status: INVALID,
    says: "both",
  },
  {
    name: "MAX_LLM_RETENTION_PRIORITY",
    value: 100,
    run: (count) => check(retention(1, count)),
    status: INVALID,
    says: "both",
  },
  {
    name: "MAX_LLM_SALT_CHARS",
    value: 1024,
    run: (count) => check({ cacheSalt: "a".repeat(count) }),
    status: INVALID,
    says: "both",
  },
  {
    name: "MAX_LLM_GUIDE_CHARS",
    value: 131_072,
    run: (count) => check({ guide: { type: "regex", text: "a".repeat(count) } }),
    status: INVALID,
    says: "both",
  },
  { name: "MAX_PROMPT_BYTES", value: 4_194_304, run: encodeText, status: INVALID, says: "both" },
  {
    name: "MAX_UNPAUSED_TEXT_CHARS",
    value: 65_536,
    run: (count) =>
      createTokenizer({ tokenizer: UNIGRAM, config: {} }).encode("h".repeat(count), { addSpecialTokens: false }),
    status: INVALID,
    says: "both",
  },
  {
    name: "MAX_TEMPLATE_STEPS",
    value: 2_000_000,
    run: (count) => new Budget().spend(count),
    status: "TemplateError",
    says: "limit",
  },
  {
    name: "MAX_RENDERED_CHARS",
    value: 8_388_608,
    run: (count) => new Budget().chars(count),
    status: "TemplateError",
    says: "limit",
  },
  { name: "MAX_TEMPLATE_DEPTH", value: 64, run: nestMacros, status: "TemplateError", says: "limit" },
];
