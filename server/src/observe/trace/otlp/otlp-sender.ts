/** Sends one export to a collector, once. Implemented for OTLP/HTTP and OTLP/gRPC. */
import { readFileSync } from "node:fs";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { invalidArgument } from "../../../core/server-error.ts";
import type { OtlpExport } from "./otlp-message.ts";
import type { OtlpOutcome } from "./otlp-outcome.ts";
import type { OtlpSettings } from "./otlp-settings.ts";

export interface OtlpSender {
  /** Never rejects: a collector that cannot be reached is an outcome. */
  send(batch: OtlpExport, signal: AbortSignal): Promise<OtlpOutcome>;
  close(): void;
}

/** Tells collectors who sends (OTLP exporter specification, "User Agent"). */
export const USER_AGENT = "OTel-OTLP-Exporter-Nereid";
/** More of an answer is not read: it holds a message at most. */
export const MAX_ANSWER_BYTES = 65_536;

export interface TlsFiles {
  readonly ca?: Buffer;
  readonly key?: Buffer;
  readonly cert?: Buffer;
}

/** @throws ServerError naming the variable whose file cannot be read */
export function readTlsFiles({ ca, key, cert }: OtlpSettings["tlsFiles"]): TlsFiles {
  return {
    ...(ca === "" ? {} : { ca: readPem(ca, "CERTIFICATE") }),
    ...(key === "" ? {} : { key: readPem(key, "CLIENT_KEY") }),
    ...(cert === "" ? {} : { cert: readPem(cert, "CLIENT_CERTIFICATE") }),
  };
}

function readPem(path: string, name: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw invalidArgument(`OTEL_EXPORTER_OTLP_${name} expects a readable PEM file: ${reason}`);
  }
}

const compress = promisify(gzip);

export function compressed(body: Uint8Array, compression: OtlpSettings["compression"]): Promise<Uint8Array> {
  return compression === "gzip" ? compress(body) : Promise.resolve(body);
}

/** The cause has the reason where the error itself speaks of a cancelled stream. */
export function unreachable(error: unknown): OtlpOutcome {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  return { kind: "busy", fault: `could not be reached: ${cause instanceof Error ? cause.message : String(cause)}` };
}
