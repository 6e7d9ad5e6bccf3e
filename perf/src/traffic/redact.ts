/**
 * Takes secrets out of recorded traffic: header fields, JSON members, tensors and patterns. Sizes of binary tensors stay. A body
 * to which the rules cannot be applied is left out as a whole. Pure.
 */
import { isUtf8 } from "node:buffer";
import type { HeaderList, RedactionNames } from "./recording.ts";

const LENGTH_BYTES = 4;
export const REDACTED = "(redacted)";
/** Never recorded, whatever the rules. */
export const SECRET_HEADERS: readonly string[] = [
  "authorization",
  "proxy-authorization",
  "cookie",
  "set-cookie",
  "x-api-key",
  "api-key",
  "x-amz-security-token",
];

export interface RedactionRules {
  readonly headers: ReadonlySet<string>;
  readonly fields: ReadonlySet<string>;
  readonly tensors: ReadonlySet<string>;
  readonly patterns: readonly RegExp[];
}

export function rulesOf({ headers, fields, tensors, patterns }: RedactionNames): RedactionRules {
  return {
    headers: new Set([...SECRET_HEADERS, ...headers.map((name) => name.toLowerCase())]),
    fields: new Set(fields),
    tensors: new Set(tensors),
    patterns: patterns.map((pattern) => new RegExp(pattern, "gu")),
  };
}

export function hasBodyRules({ fields, tensors, patterns }: RedactionRules): boolean {
  return fields.size + tensors.size + patterns.length > 0;
}

export function redactHeaders(headers: HeaderList, rules: RedactionRules): HeaderList {
  return headers.map(([name, value]) => [name, rules.headers.has(name.toLowerCase()) ? REDACTED : value]);
}

/** A body of HTTP. `jsonLength`: of `Inference-Header-Content-Length`; undefined: all is text. */
export interface HttpBody {
  readonly bytes: Buffer;
  readonly jsonLength: number | undefined;
  readonly isCompressed: boolean;
}

/** @returns the body without its secrets, or why it cannot be kept */
export function redactHttp(
  body: HttpBody,
  rules: RedactionRules,
): Omit<HttpBody, "isCompressed"> | { readonly omitted: string } {
  if (!hasBodyRules(rules) || body.bytes.length === 0) return body;
  if (body.isCompressed) return { omitted: "redaction rules cannot be applied to a compressed body" };
  const { bytes, jsonLength = bytes.length } = body;
  const text = bytes.toString("utf8", 0, jsonLength);
  if (/^\s*(?:data|event|id|:)/.test(text))
    return { bytes: Buffer.from(redactEvents(text, rules)), jsonLength: undefined };
  const document = tryParse(text);
  if (document === undefined) return { omitted: "redaction rules cannot be applied to a body that is no JSON" };
  const tail = Buffer.from(bytes.subarray(jsonLength));
  const json = Buffer.from(JSON.stringify(redactDocument(document, tail, rules)));
  return { bytes: Buffer.concat([json, tail]), jsonLength: body.jsonLength === undefined ? undefined : json.length };
}

function tryParse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Lines of server-sent events; those whose data is no JSON are texts. */
function redactEvents(text: string, rules: RedactionRules): string {
  return text
    .split("\n")
    .map((line) => {
      const data = /^data: ?(.*)$/.exec(line)?.[1];
      if (data === undefined) return line;
      const value = tryParse(data);
      return `data: ${value === undefined ? maskText(data, rules.patterns) : JSON.stringify(redactValue(value, rules))}`;
    })
    .join("\n");
}

interface TensorMessage {
  readonly name?: unknown;
  readonly datatype?: unknown;
  readonly data?: unknown;
  readonly parameters?: { readonly binary_data_size?: unknown };
}

/** Masks binary tensors in `tail` where they are. */
function redactDocument(document: unknown, tail: Buffer, rules: RedactionRules): unknown {
  const tensors = ["inputs", "outputs"].flatMap((key) => tensorsOf(document, key));
  let at = 0;
  for (const { name, datatype, parameters } of tensors) {
    const size = Number(parameters?.binary_data_size ?? 0);
    if (!(size > 0)) continue;
    maskTensor(tail.subarray(at, at + size), String(datatype), rules.tensors.has(String(name)), rules.patterns);
    at += size;
  }
  return redactValue(document, rules);
}

function tensorsOf(document: unknown, key: string): readonly TensorMessage[] {
  const list =
    typeof document === "object" && document !== null ? (document as Record<string, unknown>)[key] : undefined;
  return Array.isArray(list)
    ? list.filter((each): each is TensorMessage => typeof each === "object" && each !== null)
    : [];
}

/** In place. Numbers become 0; elements of texts keep their lengths. Data that is not what its datatype says becomes 0. */
export function maskTensor(data: Buffer, datatype: string, isWhole: boolean, patterns: readonly RegExp[]): void {
  const elements = datatype === "BYTES" ? elementsOf(data) : undefined;
  if (elements === undefined) {
    if (isWhole || datatype === "BYTES") data.fill(0);
    return;
  }
  for (const element of elements) {
    if (isWhole) element.fill("x");
    else if (patterns.length > 0) maskElement(element, patterns);
  }
}

/** Undefined: the lengths do not fit. */
function elementsOf(data: Buffer): readonly Buffer[] | undefined {
  const elements: Buffer[] = [];
  for (let at = 0; at < data.length; ) {
    if (at + LENGTH_BYTES > data.length) return undefined;
    const end = at + LENGTH_BYTES + data.readUInt32LE(at);
    if (end > data.length) return undefined;
    elements.push(data.subarray(at + LENGTH_BYTES, end));
    at = end;
  }
  return elements;
}

function maskElement(element: Buffer, patterns: readonly RegExp[]): void {
  const encoding = isUtf8(element) ? "utf8" : "latin1";
  element.write(maskText(element.toString(encoding), patterns, encoding), encoding);
}

function redactValue(value: unknown, rules: RedactionRules, isSecret = false): unknown {
  if (Array.isArray(value)) return value.map((each: unknown) => redactValue(each, rules, isSecret));
  if (typeof value === "string") return isSecret ? REDACTED : maskText(value, rules.patterns);
  if (typeof value !== "object" || value === null) return isSecret && typeof value === "number" ? 0 : value;
  const isTensor = "name" in value && typeof value.name === "string" && rules.tensors.has(value.name);
  return Object.fromEntries(
    Object.entries(value).map(([key, each]: [string, unknown]) => [
      key,
      redactValue(each, rules, isSecret || rules.fields.has(key) || (isTensor && key === "data")),
    ]),
  );
}

/** As many bytes as before. */
export function maskText(text: string, patterns: readonly RegExp[], encoding: "utf8" | "latin1" = "utf8"): string {
  return patterns.reduce(
    (sofar, pattern) => sofar.replace(pattern, (match) => "x".repeat(Buffer.byteLength(match, encoding))),
    text,
  );
}
