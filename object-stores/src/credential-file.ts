/**
 * The credentials file of TRITON_CLOUD_CREDENTIAL_PATH: credentials by path prefix; the longest matching prefix wins.
 * Source: Triton documentation, "Model Repository", Cloud Storage with Credential file.
 */
import { readFile } from "node:fs/promises";
import { ToolError } from "@nereid/server/files/tool-error";

export type CloudKind = "s3" | "gs" | "as";

const MAX_FILE_BYTES = 1 << 20;

/** Undefined: no entry for that path. @throws ToolError when the file is malformed */
export async function credentialFor(file: string, kind: CloudKind, url: string): Promise<unknown> {
  const text = await readFile(file, "utf8").catch((error: unknown) => {
    throw new ToolError(`Cannot read TRITON_CLOUD_CREDENTIAL_PATH, ${file}`, { cause: error });
  });
  return chooseCredential(text, file, kind, url);
}

/** Pure part of `credentialFor`. */
export function chooseCredential(text: string, file: string, kind: CloudKind, url: string): unknown {
  const form = 'expected JSON such as {"s3": {"s3://bucket/path": {"key_id": "…", "secret_key": "…"}}}';
  if (text.length > MAX_FILE_BYTES) throw new ToolError(`${file} has ${text.length} characters, ${form}`);
  const all = asRecord(parsed(text, file, form));
  if (all === undefined) throw new ToolError(`${file} holds no object, ${form}`);
  if (all[kind] === undefined) return undefined;
  const entries = asRecord(all[kind]);
  if (entries === undefined) throw new ToolError(`${file}: "${kind}" is no object, ${form}`);
  let best: string | undefined;
  for (const prefix of Object.keys(entries)) {
    if (url.startsWith(prefix) && prefix.length >= (best?.length ?? 0)) best = prefix;
  }
  return best === undefined ? undefined : entries[best];
}

/** A string field of a credential; undefined when absent or empty. @throws ToolError when it is no string */
export function stringField(credential: unknown, name: string): string | undefined {
  const value = asRecord(credential)?.[name];
  if (value === undefined || value === "") return undefined;
  if (typeof value === "string") return value;
  throw new ToolError(`The credential's "${name}" is ${typeof value}, expected a text`);
}

export function asRecord(value: unknown): Readonly<Record<string, unknown>> | undefined {
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  return isObject ? (value as Readonly<Record<string, unknown>>) : undefined;
}

/** The parser's own message may quote a secret. */
function parsed(text: string, file: string, form: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new ToolError(`${file} is no JSON, ${form}`);
  }
}
