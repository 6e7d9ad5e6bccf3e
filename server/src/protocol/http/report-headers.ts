/**
 * Optional headers of an inference answer: its own times (Server-Timing, https://www.w3.org/TR/server-timing) and the
 * load of the server (https://github.com/grpc/proposal/blob/master/A51-custom-backend-metrics.md).
 */
import { LOAD_FORMAT_HEADER, LOAD_HEADER, type LoadReports, loadHeader } from "../load-report-text.ts";
import type { HttpCall } from "./http-call.ts";
import type { HttpReply, HttpStreamReply } from "./http-reply.ts";
import { TimedTrace } from "./timed-trace.ts";

export function withReports<Reply extends HttpReply | HttpStreamReply>(
  reply: Reply,
  call: HttpCall,
  load: LoadReports | undefined,
): Reply {
  const format = call.header(LOAD_FORMAT_HEADER);
  const { trace } = call;
  if (format === undefined && !(trace instanceof TimedTrace)) return reply;
  const headers = [...(reply.headers ?? [])];
  if (trace instanceof TimedTrace) headers.push("Server-Timing", trace.summary(call.arrivalMs, performance.now()));
  const text = format === undefined || load === undefined ? undefined : loadHeader(format, load.report());
  if (text !== undefined) headers.push(LOAD_HEADER, text);
  return { ...reply, headers };
}
