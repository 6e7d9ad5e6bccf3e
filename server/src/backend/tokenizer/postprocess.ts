/**
 * Token ids to text. Responses of one stream share a detokenizer per row and beam, so that characters spread over chunks
 * come out whole and spaces between chunks stay. Knows no scheduler.
 */
import { packBytesElements } from "../../core/bytes-tensor.ts";
import type { InferRequest } from "../../core/infer-request.ts";
import { invalidArgument } from "../../core/server-error.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { Detokenizer } from "../../formats/tokenizer/detokenizer.ts";
import { findInput, firstInt, intValues, textTensor } from "./tensor-values.ts";

/** Inputs that older configurations pass through this model to the ensemble's outputs. */
const PASSED_THROUGH: readonly string[] = [
  "CUM_LOG_PROBS",
  "OUTPUT_LOG_PROBS",
  "CONTEXT_LOGITS",
  "GENERATION_LOGITS",
  "BATCH_INDEX",
];

export interface PostprocessingModel {
  readonly createDetokenizer: () => Detokenizer;
  /** Outputs of the configuration: only these are made. */
  readonly outputs: ReadonlySet<string>;
  /** Detokenizers of the streams that have more to come, by client request; they go when the client's request goes. */
  readonly streams: WeakMap<object, Map<string, Detokenizer>>;
}

/** All that is read of a request. */
type TokensRequest = Pick<InferRequest, "inputs" | "origin">;

/** @throws ServerError when the tensors do not fit together */
export function postprocess(model: PostprocessingModel, request: TokensRequest): readonly Tensor[] {
  const beams = readBeams(request);
  const stream = streamOf(model, request);
  const texts = beams.rows.map((ids, index) => {
    const key = `${beams.key}${index}`;
    const detokenizer = stream?.get(key) ?? model.createDetokenizer();
    const text = detokenizer.push(ids);
    if (request.origin.isLast) return text + detokenizer.finish();
    stream?.set(key, detokenizer);
    return text;
  });
  if (request.origin.isLast) model.streams.delete(request.origin.key);
  const tensors: Tensor[] = [];
  if (model.outputs.has("OUTPUT")) {
    // One dimension, rows and beams alike: TensorRT-LLM's model.py makes an array of a list, and its clients index it so.
    const shape = [texts.length];
    const [only] = texts;
    if (texts.length === 1 && only !== undefined) tensors.push(textTensor("OUTPUT", shape, only));
    else tensors.push({ name: "OUTPUT", datatype: "BYTES", shape, data: packBytesElements(texts) });
  }
  for (const name of PASSED_THROUGH) {
    const tensor = findInput(request, name);
    const output = `OUT_${name}`;
    if (tensor !== undefined && model.outputs.has(output)) tensors.push({ ...tensor, name: output });
  }
  return tensors;
}

/** State is kept only for requests that announce more, and asked for only where it may exist. */
function streamOf(model: PostprocessingModel, request: TokensRequest): Map<string, Detokenizer> | undefined {
  const { key, isLast } = request.origin;
  const known = model.streams.get(key);
  if (known !== undefined || isLast) return known;
  const created = new Map<string, Detokenizer>();
  model.streams.set(key, created);
  return created;
}

interface Beams {
  /** Valid ids of each row and beam, in order. */
  readonly rows: readonly Int32Array[];
  /** Which row and which sample of the client's request this response is about. */
  readonly key: string;
}

function readBeams(request: TokensRequest): Beams {
  const tokens = findInput(request, "TOKENS_BATCH");
  if (tokens === undefined) throw invalidArgument("input 'TOKENS_BATCH' is missing");
  const key = `${indexOf(request, "BATCH_INDEX")}.${indexOf(request, "SEQUENCE_INDEX")}.`;
  const ids = intValues(tokens);
  const width = tokens.shape.at(-1) ?? 0;
  const numBeams = tokens.shape.slice(0, -1).reduce((product, dim) => product * dim, 1);
  const lengths = readLengths(request, numBeams);
  const rows = Array.from({ length: numBeams }, (_, beam) => {
    const length = Math.max(0, Math.min(width, lengths?.[beam] ?? width));
    // A view of a small array makes V8 allocate its memory anew.
    return length === ids.length ? ids : ids.subarray(beam * width, beam * width + length);
  });
  return { rows, key };
}

function readLengths(request: TokensRequest, numBeams: number): Int32Array | undefined {
  const tensor = findInput(request, "SEQUENCE_LENGTH");
  if (tensor === undefined) return undefined;
  const lengths = intValues(tensor);
  if (lengths.length === numBeams) return lengths;
  throw invalidArgument(
    `input 'SEQUENCE_LENGTH' has ${lengths.length} lengths, expected ${numBeams}: one for each row and beam of 'TOKENS_BATCH'`,
  );
}

function indexOf(request: TokensRequest, name: string): number {
  const tensor = findInput(request, name);
  return tensor === undefined ? 0 : firstInt(tensor);
}
