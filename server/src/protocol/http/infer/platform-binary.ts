/**
 * Binary tensors where a cloud drops custom headers: the content type carries the length of the JSON. Pure. Source:
 * Triton's cloud front ends (https://github.com/triton-inference-server/server/blob/main/src/sagemaker_server.cc and
 * vertex_ai_server.cc, `GetInferenceHeaderLength`).
 */
import { invalidArgument } from "../../../core/server-error.ts";
import type { HttpCall } from "../http-call.ts";
import type { HttpReply, HttpStreamReply } from "../http-reply.ts";

const LENGTH_HEADER = "Inference-Header-Content-Length";
/** As C's `strtol` reads a number: what follows it is ignored. Source: ISO C17, 7.22.1.4. */
const LEADING_INTEGER = /^[ \t\n\v\f\r]*([+-]?[0-9]+)/;
const MAX_INT32 = 2 ** 31 - 1;
const PARAMETER = ";json-header-size=";

/** As the content types of the clouds begin. */
export type BinaryType =
  | "application/vnd.sagemaker-triton.binary+json"
  | "application/vnd.vertex-ai-triton.binary+json";

/**
 * The length header that a call means; undefined for a body that is all JSON.
 * @throws ServerError invalid_argument for a content type that is malformed
 */
export function headerLengthOf(call: HttpCall, type: BinaryType): string | undefined {
  const sent = call.header("content-type") ?? "";
  const prefix = `${type}${PARAMETER}`;
  const at = sent.indexOf(prefix);
  if (at < 0) return undefined;
  if (at > 0) throw invalidArgument(`expect MIME type for binary data starts with '${prefix}', got: ${sent}`);
  const text = sent.slice(prefix.length);
  const digits = LEADING_INTEGER.exec(text)?.[1];
  if (digits === undefined) throw invalidArgument(`Unable to parse inference header size, got: ${text}`);
  if (Math.abs(Number(digits)) <= MAX_INT32) return digits;
  const fault = `Unable to parse inference header size, value is out of range, got: ${text}`;
  throw invalidArgument(fault);
}

/** An answer with the length in its content type, and no longer in a header. */
export function withBinaryType<Reply extends HttpReply | HttpStreamReply>(reply: Reply, type: BinaryType): Reply {
  const { headers = [] } = reply;
  const at = headers.indexOf(LENGTH_HEADER);
  if (at < 0) return reply;
  const contentType = `${type}${PARAMETER}${headers[at + 1] ?? "0"}` as const;
  return { ...reply, contentType, headers: headers.filter((_, i) => i !== at && i !== at + 1) };
}
