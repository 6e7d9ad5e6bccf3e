import assert from "node:assert/strict";
import { test } from "node:test";
import { ServerError } from "../../core/server-error.ts";
import type { AdapterChoice } from "../adapters/adapter-choice.ts";
import { ZERO_STATS } from "../engine-stats.ts";
import { type BeamResult, type GenerateRequest, NEUTRAL_REQUEST } from "../request/generate.ts";
import type { SequenceSink } from "../request/sequence.ts";
import { type FrameReader, FrameSplitter, FrameWriter } from "./frame.ts";
import { readRequest, writeRequest } from "./messages.ts";
import { deliverReport, StepReport } from "./step-report.ts";

function readerOf(bytes: Uint8Array): FrameReader {
  const frames: FrameReader[] = [];
  new FrameSplitter((frame) => frames.push(frame)).push(bytes);
  const [frame] = frames;
  assert.ok(frame !== undefined, "a frame");
  return frame;
}

function throughFrame(request: GenerateRequest): GenerateRequest {
  const writer = new FrameWriter();
  writer.begin(2);
  writeRequest(writer, request);
  return readRequest(readerOf(writer.end()));
}

test("readRequest() gives back the encoder's input, ids as well as frames", () => {
  for (const encoderInput of [
    { kind: "tokens" as const, tokens: Int32Array.of(4, 9) },
    { kind: "frames" as const, values: Float32Array.of(0.5, -1, 2, 3), width: 2 },
  ]) {
    const request = { ...NEUTRAL_REQUEST, promptTokens: Int32Array.of(1), encoderInput };
    assert.deepEqual(throughFrame(request).encoderInput, encoderInput);
  }
});

test("readRequest() gives back every field that writeRequest() wrote", () => {
  const everything: GenerateRequest = {
    promptTokens: Int32Array.of(3, 70, 5),
    encoderInput: { kind: "tokens", tokens: Int32Array.of(8, 2) },
    maxTokens: 9,
    minTokens: 2,
    endIds: Int32Array.of(2, 4),
    stopWords: [Int32Array.of(1), Int32Array.of(2, 3)],
    badWords: [Int32Array.of(8, 9, 10)],
    temperature: 0.3,
    topK: 11,
    topP: 0.7,
    topPDecay: 0.9,
    topPMin: 0.01,
    topPResetId: 6,
    minP: 0.05,
    noRepeatNgramSize: 3,
    seed: 2n ** 64n - 3n,
    repetitionPenalty: 1.1,
    presencePenalty: 0.2,
    frequencyPenalty: -0.4,
    promptIgnoreLength: 1,
    logitBias: Float32Array.of(0.5, -1),
    logProbs: true,
    topLogProbs: 5,
    promptLogProbs: true,
    contextLogits: true,
    generationLogits: true,
    beamWidth: 4,
    numReturnBeams: 3,
    lengthPenalty: -0.5,
    earlyStopping: 2,
    beamDiversityRate: 0.25,
    guide: { type: "regex", text: "é+" },
    logitsPostProcessor: "mine",
    cacheSalt: "salt",
    adapter: { kind: "name", text: "a" },
    priority: 0.75,
    retention: {
      ranges: [
        { start: 0, end: 8, priority: 90, durationMs: 500 },
        { start: 8, end: Number.POSITIVE_INFINITY, priority: 0, durationMs: Number.POSITIVE_INFINITY },
      ],
      decode: { priority: 10, durationMs: 25 },
    },
    tokenSalts: BigUint64Array.of(0n, 2n ** 64n - 1n, 3n),
    draftTokens: Int32Array.of(9, 1),
    draftAcceptanceThreshold: 0.75,
    maxDraftTokens: 6,
    promptTable: { numRows: 1, values: Float32Array.of(1, 2) },
    promptPositions: Int32Array.of(0, 1, 2, 0, 1, 3),
  };
  assert.deepEqual(throughFrame(everything), everything);
  const absent = {
    seed: undefined,
    logitBias: undefined,
    promptTable: undefined,
    promptPositions: undefined,
    guide: undefined,
    adapter: undefined,
    retention: undefined,
    tokenSalts: undefined,
    encoderInput: undefined,
  };
  assert.deepEqual(throughFrame(NEUTRAL_REQUEST), { ...NEUTRAL_REQUEST, ...absent });
  for (const flag of ["logProbs", "promptLogProbs", "contextLogits", "generationLogits"] as const) {
    const one = { ...NEUTRAL_REQUEST, ...absent, [flag]: true };
    assert.deepEqual(throughFrame(one), one);
  }
});

const ADAPTERS: readonly AdapterChoice[] = [
  { kind: "name", text: "français" },
  { kind: "path", text: "/adapters/a" },
  { kind: "task", id: 2n ** 64n - 1n, matrices: undefined },
  { kind: "task", id: 7n, matrices: { numRows: 1, weights: Float32Array.of(0.5, -1), config: Int32Array.of(0, 1, 2) } },
];
for (const adapter of ADAPTERS) {
  test(`readRequest() gives the adapter ${adapter.kind} that writeRequest() wrote`, () => {
    assert.deepEqual(throughFrame({ ...NEUTRAL_REQUEST, adapter }).adapter, adapter);
  });
}

test("deliverReport() hands each request its own tokens, lists, beams and end, and skips those nobody knows", () => {
  const report = new StepReport();
  const usage = {
    ...{ promptTokens: 1, outputTokens: 2, reusedBlocks: 3, newBlocks: 4 },
    ...{ draftTokens: 9, acceptedDraftTokens: 10 },
    ...{ arrivalNs: 5, firstScheduledNs: 6, firstTokenNs: 7, lastTokenNs: 8 },
  };
  const beams: BeamResult[] = [
    {
      tokenIds: Int32Array.of(4, 5),
      logProbs: Float32Array.of(-1, -2),
      cumLogProb: -3.1,
      logits: new Float32Array(4).fill(2),
    },
    { tokenIds: new Int32Array(0), logProbs: new Float32Array(0), cumLogProb: 0, logits: new Float32Array(0) },
  ];
  for (const id of [1, 2, 3]) {
    const sink = report.sink(id, () => undefined);
    sink.started();
    sink.token(id * 10, -id);
    sink.extra("topIds", Int32Array.of(id, 7));
    sink.extra("contextLogits", Float32Array.of(id, 0.5));
    sink.beams(beams);
    if (id === 3) sink.failed(new ServerError("not_found", "gone"));
    else sink.finished("stop", usage);
  }
  const events: unknown[][] = [];
  const sinkOf = (id: number): SequenceSink => ({
    started: () => events.push([id, "started"]),
    token: (token, logProb) => events.push([id, token, logProb]),
    extra: (kind, values) => events.push([id, kind, ...values]),
    beams: (results) => events.push([id, results]),
    finished: (reason, own) => events.push([id, reason, own]),
    failed: ({ code, message }) => events.push([id, code, message]),
  });
  const { stats, blocks } = deliverReport(readerOf(report.take({ ...ZERO_STATS, iteration: 5 }, "fcus")), (id) =>
    id === 2 ? undefined : sinkOf(id),
  );
  assert.deepEqual([stats.iteration, blocks], [5, "fcus"]);
  const of = (id: number): unknown[] => events.filter(([owner]) => owner === id).map(([, ...rest]) => rest);
  const common = (id: number): unknown[] => [
    ["started"],
    [id * 10, -id],
    ["topIds", id, 7],
    ["contextLogits", id, 0.5],
    [beams],
  ];
  assert.deepEqual(of(1), [...common(1), ["stop", usage]]);
  assert.deepEqual(of(3), [...common(3), ["not_found", "gone"]]);
  assert.deepEqual(of(2), []);
  const next = deliverReport(readerOf(report.take(ZERO_STATS)), sinkOf);
  assert.deepEqual([next.stats.iteration, next.blocks], [0, ""]);
  assert.equal(events.length, 12);
});
