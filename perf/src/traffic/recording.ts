/**
 * The format of recorded traffic: JSON lines, the first about the recording, then one for each exchange in the order of their
 * ends. Bodies that are text stand in the line, others in a second file beside it (`.bin`). Pure.
 */

export const FORMAT = "nereid-recording";
export const FORMAT_VERSION = 1;

export interface RecordingHead {
  readonly format: typeof FORMAT;
  readonly version: number;
  readonly server: string;
  readonly date: string;
  readonly sample: number;
  readonly redaction: RedactionNames;
}

/** Rules as they were given, so that a replay masks the new answers alike. */
export interface RedactionNames {
  readonly headers: readonly string[];
  readonly fields: readonly string[];
  readonly tensors: readonly string[];
  readonly patterns: readonly string[];
}

export type Body =
  | { readonly text: string }
  /** Place in the file of bodies, in bytes. */
  | { readonly offset: number; readonly length: number }
  /** Left out, and why. */
  | { readonly omitted: string };

export type HeaderList = readonly (readonly [name: string, value: string])[];

export interface ExchangeLine {
  /** When the request came, ms since the start of the recording. */
  readonly at_ms: number;
  readonly protocol: "http" | "grpc";
  readonly method: string;
  readonly path: string;
  readonly headers: HeaderList;
  /** One for HTTP, one for each message of gRPC. */
  readonly body: readonly Body[];
  readonly answer: {
    /** A status of HTTP, or of gRPC. */
    readonly status: number;
    /** Present for gRPC. */
    readonly message?: string;
    readonly headers: HeaderList;
    readonly body: readonly Body[];
    readonly ms: number;
  };
}

/** An exchange with its bodies as bytes. */
export interface Exchange {
  readonly atMs: number;
  readonly protocol: "http" | "grpc";
  readonly method: string;
  readonly path: string;
  readonly headers: HeaderList;
  readonly bodies: readonly Buffer[];
  readonly answer: Answer;
}

export interface Answer {
  readonly status: number;
  readonly message: string;
  readonly headers: HeaderList;
  /** Undefined: left out. */
  readonly bodies: readonly Buffer[] | undefined;
  readonly ms: number;
}

/** The file of bodies beside `traffic.jsonl` is `traffic.bin`. */
export function bodiesPath(path: string): string {
  return `${path.replace(/\.jsonl?$/, "")}.bin`;
}

export function headerOf(headers: HeaderList, name: string): string | undefined {
  return headers.find(([each]) => each.toLowerCase() === name)?.[1];
}

/** Inference alone: what loads, changes or reads a server is not repeated on another. */
export function isInference(method: string, path: string): boolean {
  const [plain = ""] = path.split("?");
  const isV2 = /\/v2\/models\/[^/]+(?:\/versions\/[^/]+)?\/(?:infer|generate|generate_stream)$/.test(plain);
  return method === "POST" && (isV2 || /\/v1\/[a-z/]+$/.test(plain) || INFERENCE_CALL.test(plain));
}

const INFERENCE_CALL = /^\/inference\.GRPCInferenceService\/Model(?:Stream)?Infer$/;
