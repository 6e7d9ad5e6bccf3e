/** Hands a message of a running host to the part of the model that it is for. */
import type { Logger } from "../../observe/log.ts";
import { ASK, EXECUTED, FINALIZED, LOG, RELEASED, RESCHEDULE, RESPONSE } from "../python/messages.ts";
import type { OwnedMetrics } from "../python/owned-metrics.ts";
import type { Questions } from "../python/questions.ts";
import type { StubProcess } from "../python/stub-process.ts";
import type { FrameReader } from "../python/wire-codec.ts";
import type { HostRequests } from "./host-requests.ts";
import type { HostSteps } from "./host-steps.ts";
import {
  decodeExecuted,
  decodeResponseReport,
  ENDED,
  type ExecutedMessage,
  expectSuccess,
  INSTANCE_CLOSED,
  INSTANCE_READY,
  RESPONSE_STATISTICS,
} from "./messages.ts";

export interface MessageParts {
  readonly host: StubProcess;
  readonly metrics: OwnedMetrics;
  readonly questions: Questions;
  readonly log: Logger;
  readonly requests: HostRequests;
  readonly steps: HostSteps;
  /** As of `monotonicOriginMs`. */
  readonly originMs: number;
  executed(instance: number, message: ExecutedMessage): void;
}

/** @throws RangeError when the message is none that a host may send now */
export function takeMessage(kind: number, reader: FrameReader, parts: MessageParts): void {
  const { host, requests, steps, originMs } = parts;
  if (kind === RESPONSE) requests.answered(reader);
  else if (kind === ENDED) requests.ended(reader.u32());
  else if (kind === EXECUTED) parts.executed(reader.u32(), decodeExecuted(reader, originMs));
  else if (kind === RELEASED) for (const offset of reader.list(() => reader.u64())) host.blocks.release(Number(offset));
  else if (kind === RESPONSE_STATISTICS) requests.report(reader.u32(), decodeResponseReport(reader, originMs));
  else if (kind === RESCHEDULE) requests.reschedule(reader.u32());
  else if (kind === LOG) logged(reader, parts.log);
  else if (kind === ASK) parts.questions.take(reader, parts.metrics, (frame) => host.send(frame));
  else if (kind === INSTANCE_READY) steps.ended("initialize", reader.u32(), () => expectSuccess(reader));
  else if (kind === INSTANCE_CLOSED) steps.ended("close", reader.u32(), () => undefined);
  else if (kind !== FINALIZED) throw new RangeError(`unknown message kind ${kind}`);
}

/** Levels by Triton's number. */
export function logged(reader: FrameReader, log: Logger): void {
  const level = reader.u8();
  const location = `${reader.string()}:${reader.u32()}`;
  const message = reader.string();
  if (level === 0) log.info(location, message);
  else if (level === 1) log.warn(location, message);
  else if (level === 2) log.error(location, message);
  else log.verbose(1, location, message);
}
