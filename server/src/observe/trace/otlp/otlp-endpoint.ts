/**
 * The collector's URL. Source: OpenTelemetry specification, "OpenTelemetry Protocol Exporter", "Endpoint URLs for OTLP/HTTP"
 * and "Configuration Options". Pure.
 */
export type OtlpProtocol = "grpc" | "http/protobuf" | "http/json";

const TRACES_PATH = "v1/traces";

/** Triton's flag names the whole URL. */
export function flagUrl(text: string): string | undefined {
  return isHttpUrl(text) ? text : undefined;
}

/** A variable of traces alone: used as it is. */
export function parseExactUrl(text: string, protocol: OtlpProtocol, isInsecure: boolean): string | undefined {
  return flagUrl(protocol === "grpc" ? withScheme(text, isInsecure) : text);
}

/** A variable of all signals: OTLP/HTTP appends the path of traces. */
export function parseBaseUrl(text: string, protocol: OtlpProtocol, isInsecure: boolean): string | undefined {
  if (protocol === "grpc") return parseExactUrl(text, protocol, isInsecure);
  if (!isHttpUrl(text)) return undefined;
  const url = new URL(text);
  url.pathname = `${url.pathname.replace(/\/*$/, "")}/${TRACES_PATH}`;
  return url.href;
}

/** OTLP/gRPC also takes `host:port`, which is secure unless a variable says otherwise. */
function withScheme(text: string, isInsecure: boolean): string {
  if (text.includes("://")) return text;
  return `${isInsecure ? "http" : "https"}://${text}`;
}

function isHttpUrl(text: string): boolean {
  const protocol = URL.canParse(text) ? new URL(text).protocol : "";
  return protocol === "http:" || protocol === "https:";
}
