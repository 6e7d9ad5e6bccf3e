/** Whether two answers to the same request say the same: tensors, JSON, streams of events, texts. Pure. */
import { decodeInferResponse, decodeStreamResponse, NameCache, readV2Response } from "@nereid/wire";
import {
  compareJson,
  compareTensors,
  compareText,
  type Difference,
  type TensorValue,
  type Tolerance,
} from "./compare-values.ts";
import { decodedBody } from "./content-encoding.ts";
import { type Answer, type Exchange, headerOf } from "./recording.ts";

export interface CompareOptions {
  readonly tolerance: Tolerance;
  /** Members of JSON that may differ. */
  readonly ignored: ReadonlySet<string>;
}

const MAX_DECODED_BYTES: number = 2 ** 30;

type Request = Pick<Exchange, "protocol" | "path">;

/** Empty: they say the same. */
export function compareAnswers(
  request: Request,
  expected: Answer,
  got: Answer,
  options: CompareOptions,
): readonly Difference[] {
  if (expected.status !== got.status) {
    const text = ({ status, message, bodies }: Answer): string =>
      `${status} ${message === "" ? (bodies?.[0]?.toString("utf8", 0, 200) ?? "") : message}`.trim();
    return [{ at: "status", expected: text(expected), got: text(got) }];
  }
  if (expected.bodies === undefined || got.bodies === undefined) return [];
  if (request.protocol === "grpc") {
    const isStream = request.path.endsWith("/ModelStreamInfer");
    return [
      ...compareText(expected.message, got.message, "message"),
      ...compareMessages(expected.bodies, got.bodies, isStream, options),
    ];
  }
  const [one, other] = [plainBody(expected), plainBody(got)];
  const isTensors = request.path.split("?")[0]?.endsWith("/infer") === true && expected.status === 200;
  return isTensors
    ? compareInfer(expected, got, [one, other], options)
    : compareBodies(one.toString(), other.toString(), options);
}

function plainBody(answer: Answer): Buffer {
  const bytes = Buffer.concat(answer.bodies ?? []);
  const encoding = headerOf(answer.headers, "content-encoding") ?? "identity";
  return decodedBody(bytes, encoding, MAX_DECODED_BYTES) ?? bytes;
}

function compareInfer(
  expected: Answer,
  got: Answer,
  [one, other]: readonly [Buffer, Buffer],
  { tolerance, ignored }: CompareOptions,
): readonly Difference[] {
  const [first, second] = [
    { answer: expected, body: one },
    { answer: got, body: other },
  ].map(({ answer, body }) => {
    const stated = headerOf(answer.headers, "inference-header-content-length");
    return readV2Response(body, stated === undefined ? body.length : Number(stated));
  });
  if (first === undefined || second === undefined) return [];
  const facts = (response: typeof first): unknown => ({
    model_name: response.modelName,
    model_version: response.modelVersion,
    id: response.id,
    parameters: Object.fromEntries(response.parameters),
  });
  return [
    ...compareJson(facts(first), facts(second), tolerance, ignored),
    ...compareTensors(first.outputs, second.outputs, tolerance),
  ];
}

function compareBodies(expected: string, got: string, { tolerance, ignored }: CompareOptions): readonly Difference[] {
  const [one, other] = [expected, got].map(eventsOf);
  if (one !== undefined && other !== undefined) {
    const [text, otherText] = [one, other].map(textOf);
    // Servers cut a text into tokens as they like: the whole text counts.
    if (text !== "" || otherText !== "") return compareText(text ?? "", otherText ?? "", "text of the stream");
    return compareJson(one, other, tolerance, ignored, "events");
  }
  try {
    return compareJson(JSON.parse(expected), JSON.parse(got), tolerance, ignored);
  } catch {
    return compareText(expected, got, "body");
  }
}

/** Data of server-sent events; undefined: the body is none. */
function eventsOf(body: string): readonly unknown[] | undefined {
  const data = body.split(/\r?\n/).filter((line) => line.startsWith("data:"));
  if (data.length === 0) return undefined;
  return data.map((line) => {
    const text = line.slice("data:".length).trim();
    try {
      return JSON.parse(text) as unknown;
    } catch {
      return text;
    }
  });
}

interface StreamEvent {
  readonly text_output?: unknown;
  readonly choices?: readonly { readonly text?: unknown; readonly delta?: { readonly content?: unknown } }[];
}

function textOf(events: readonly unknown[]): string {
  return events
    .map((event) => {
      if (typeof event !== "object" || event === null) return "";
      const { text_output: text, choices } = event as StreamEvent;
      const [choice] = Array.isArray(choices) ? choices : [];
      const part: unknown = text ?? choice?.delta?.content ?? choice?.text;
      return typeof part === "string" ? part : "";
    })
    .join("");
}

function compareMessages(
  expected: readonly Buffer[],
  got: readonly Buffer[],
  isStream: boolean,
  { tolerance, ignored }: CompareOptions,
): readonly Difference[] {
  if (expected.length !== got.length) {
    return [{ at: "number of messages", expected: String(expected.length), got: String(got.length) }];
  }
  return expected.flatMap((bytes, k) => {
    const [one, other] = [bytes, got[k] ?? Buffer.alloc(0)].map((each) => messageOf(each, isStream));
    if (one === undefined || other === undefined) return [];
    const prefix = isStream ? `message ${k}: ` : "";
    const facts = ({ outputs: _, ...rest }: typeof one): unknown => rest;
    return [
      ...compareJson(facts(one), facts(other), tolerance, ignored),
      ...compareTensors(one.outputs, other.outputs, tolerance),
    ].map((difference) => ({ ...difference, at: prefix + difference.at }));
  });
}

function messageOf(
  bytes: Buffer,
  isStream: boolean,
): { readonly outputs: readonly TensorValue[] } & Record<string, unknown> {
  const names = new NameCache();
  const { errorMessage = "", response } = isStream
    ? decodeStreamResponse(bytes, names)
    : { response: decodeInferResponse(bytes, names) };
  return {
    error: errorMessage,
    model_name: response?.modelName,
    model_version: response?.modelVersion,
    id: response?.id,
    outputs: response?.outputs ?? [],
  };
}
