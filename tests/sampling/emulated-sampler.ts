/** The kernel of sampling on emulated threads, for sequences of the engine: what the CUDA runner would choose for them. */
import { launchSample } from "../../server/kernels/sample/sample.cuda.ts";
import {
  COUNT_SEEN,
  NEUTRAL_SAMPLE_PARAMS,
  SAMPLE_PARAMS_BYTES,
  type SampleParams,
  writeSampleParams,
} from "../../server/kernels/sample/sample-params.ts";
import type { Sequence } from "../../server/src/engine/request/sequence.ts";
import type { EmulatedDevice } from "../cuda-emulation/emulated-device.ts";

export interface EmulatedRow {
  readonly logits: Float32Array;
  readonly sequence: Sequence;
  /** Index of the token in the output. */
  readonly index: number;
}

/** Elements of a 16-byte access. */
const ROW_STEP = 8;

/** A token for each row; -1 where there is nothing to choose by. Rows have one vocabulary. */
export async function chooseEmulated(device: EmulatedDevice, rows: readonly EmulatedRow[]): Promise<Int32Array> {
  const vocab = rows[0]?.logits.length ?? 0;
  const rowStride = Math.ceil(vocab / ROW_STEP) * ROW_STEP;
  const numRows = rows.length;
  const logits = new Float32Array(numRows * rowStride);
  const counts = new Uint16Array(numRows * vocab);
  const biases = new Float32Array(numRows * vocab);
  const maskWords = Math.ceil(vocab / 32);
  const masks = new Int32Array(numRows * maskWords).fill(-1);
  const params = new DataView(new ArrayBuffer(numRows * SAMPLE_PARAMS_BYTES));
  for (const [row, each] of rows.entries()) {
    const { request, occurrences, guide } = each.sequence;
    logits.set(each.logits, row * rowStride);
    for (const [id, count] of occurrences ?? []) counts[row * vocab + id] = COUNT_SEEN + count;
    if (request.logitBias !== undefined) biases.set(request.logitBias, row * vocab);
    if (guide !== undefined) masks.set(guide.mask, row * maskWords);
    writeSampleParams(params, row, paramsOf(each, row));
  }
  const tokens = device.allocate(numRows * 4);
  launchSample(device.stream, {
    type: "f32",
    numRows,
    vocab,
    rowStride,
    logits: device.upload(logits),
    params: device.upload(params),
    countTable: device.upload(counts),
    biasTable: device.upload(biases),
    maskTable: device.upload(masks),
    tokens,
    logProbs: device.allocate(numRows * 4),
  });
  const chosen = new Int32Array(numRows);
  await device.download(tokens, chosen);
  device.clear();
  return chosen;
}

function paramsOf({ sequence, index }: EmulatedRow, row: number): SampleParams {
  const { request, topP, seedLow, seedHigh, occurrences, guide, endIds } = sequence;
  const { temperature, topK, minP, repetitionPenalty, presencePenalty, frequencyPenalty } = request;
  const words = request.badWords.flatMap((word) => [...word]);
  return {
    ...NEUTRAL_SAMPLE_PARAMS,
    temperature: temperature === 0 ? 1 : temperature,
    isGreedy: temperature === 0 || topK === 1,
    topK,
    topP,
    minP,
    seedLow,
    seedHigh,
    index,
    repetitionPenalty,
    presencePenalty,
    frequencyPenalty,
    countRow: occurrences === undefined ? -1 : row,
    biasRow: request.logitBias === undefined ? -1 : row,
    maskRow: guide === undefined ? -1 : row,
    banned: index < request.minTokens ? [...words, ...endIds] : words,
  };
}
