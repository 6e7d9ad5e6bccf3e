/**
 * A load report in the forms that clients ask for: JSON and text for a header, a protobuf message for a gRPC trailer
 * (ORCA, https://github.com/grpc/proposal/blob/master/A51-custom-backend-metrics.md). Pure.
 */
import type { LoadReport } from "../observe/load-report.ts";

export const LOAD_FORMAT_HEADER = "endpoint-load-metrics-format";
export const LOAD_HEADER = "endpoint-load-metrics";
export const LOAD_TRAILER = "endpoint-load-metrics-bin";

/** Source of load reports for front ends, and sink of their response times. */
export interface LoadReports {
  count(isError: boolean): void;
  report(): LoadReport;
}

/** Field numbers of xds.data.orca.v3.OrcaLoadReport. */
const FIELDS = {
  cpu_utilization: 1,
  mem_utilization: 2,
  rps_fractional: 6,
  eps: 7,
  application_utilization: 9,
} as const;
const NAMED_METRICS = 8;

const WIRE_FIXED64 = 1;
const WIRE_BYTES = 2;
const DOUBLE_BYTES = 8;

/** Undefined for a format that is none. Letter case does not matter. */
export function loadHeader(format: string, report: LoadReport): string | undefined {
  switch (format.toLowerCase()) {
    case "json":
      return `JSON ${JSON.stringify({ ...Object.fromEntries(figures(report)), named_metrics: Object.fromEntries(report.named) })}`;
    case "text":
      return `TEXT ${[
        ...figures(report),
        ...[...report.named].map(([name, value]) => [`named_metrics.${name}`, value] as const),
      ]
        .map(([name, value]) => `${name}=${value}`)
        .join(", ")}`;
    default:
      return undefined;
  }
}

/** The protobuf message in base64, as metadata with a name in -bin is sent. */
export function loadTrailer(report: LoadReport): string {
  const parts = figures(report).map(([name, value]) => double(FIELDS[name], value));
  for (const [name, value] of report.named) {
    const entry = Buffer.concat([bytes(1, Buffer.from(name)), double(2, value)]);
    parts.push(bytes(NAMED_METRICS, entry));
  }
  return Buffer.concat(parts).toString("base64");
}

function figures(report: LoadReport): (readonly [name: keyof typeof FIELDS, value: number])[] {
  const { applicationUtilization } = report;
  return [
    ["cpu_utilization", report.cpuUtilization],
    ["mem_utilization", report.memoryUtilization],
    ...(applicationUtilization === undefined ? [] : [["application_utilization", applicationUtilization] as const]),
    ["rps_fractional", report.requestsPerSecond],
    ["eps", report.errorsPerSecond],
  ];
}

function double(field: number, value: number): Buffer {
  const encoded = Buffer.alloc(1 + DOUBLE_BYTES);
  encoded[0] = (field << 3) | WIRE_FIXED64;
  encoded.writeDoubleLE(value, 1);
  return encoded;
}

/** Field numbers and lengths here all fit one byte. */
function bytes(field: number, value: Buffer): Buffer {
  return Buffer.concat([Buffer.from([(field << 3) | WIRE_BYTES, value.length]), value]);
}
