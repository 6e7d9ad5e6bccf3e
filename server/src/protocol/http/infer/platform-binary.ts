/**
 * Binary tensors where a cloud drops custom headers: the content type carries the length of the JSON. Pure. Source:
 * Triton's SageMaker front end (https://github.com/triton-inference-server/server/blob/main/src/sagemaker_server.cc).
 */
import type { HttpCall } from "../http-call.ts";
import type { HttpReply, HttpStreamReply } from "../http-reply.ts";

const LENGTH_HEADER = "Inference-Header-Content-Length";
const PARAMETER = ";json-header-size=";

/** As the content types of the clouds begin. */
export type BinaryType =
  | "application/vnd.sagemaker-triton.binary+json"
  | "application/vnd.vertex-ai-triton.binary+json";

/** The length header that a call means; undefined for a body that is all JSON. */
export function headerLengthOf(call: HttpCall, type: BinaryType): string | undefined {
  const sent = call.header("content-type") ?? "";
  const prefix = `${type}${PARAMETER}`;
  return sent.startsWith(prefix) ? sent.slice(prefix.length) : undefined;
}

/** An answer with the length in its content type, and no longer in a header. */
export function withBinaryType<Reply extends HttpReply | HttpStreamReply>(reply: Reply, type: BinaryType): Reply {
  const { headers = [] } = reply;
  const at = headers.indexOf(LENGTH_HEADER);
  if (at < 0) return reply;
  const contentType = `${type}${PARAMETER}${headers[at + 1] ?? "0"}` as const;
  return { ...reply, contentType, headers: headers.filter((_, i) => i !== at && i !== at + 1) };
}
