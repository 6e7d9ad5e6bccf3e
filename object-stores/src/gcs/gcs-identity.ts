/**
 * Google Cloud credentials: service account (signed JWT, RFC 7519 and RFC 7523), user refresh token (RFC 6749),
 * metadata server, or anonymous. Source: Google Cloud, "Using OAuth 2.0 for Server to Server Applications". Tokens are
 * renewed before they expire.
 */
import { createSign } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { HttpTimeouts } from "@nereid/server/files/http-exchange";
import { ToolError } from "@nereid/server/files/tool-error";
import { asRecord, stringField } from "../credential-file.ts";
import { type StoresEnvironment, variable } from "../environment.ts";
import { exchangeJson } from "../exchange.ts";

export interface BearerIdentity {
  /** Undefined: anonymous requests. */
  readonly token: string | undefined;
  readonly endsAtMs: number;
}

export const ANONYMOUS: BearerIdentity = Object.freeze({ token: undefined, endsAtMs: Number.POSITIVE_INFINITY });

const SCOPE = "https://www.googleapis.com/auth/devstorage.read_only";
const TOKEN_URL = "https://oauth2.googleapis.com/token";
const TOKEN_SECONDS = 3600;
/** Outside Google Cloud the metadata server does not answer, and that must not delay the start. */
const METADATA_MS = 1000;
const FORM = { "content-type": "application/x-www-form-urlencoded" };

/** `file` comes from the credentials file or the environment. @throws ToolError when it is set and gives no token */
export async function findGcsIdentity(
  file: string | undefined,
  env: StoresEnvironment,
  patience: HttpTimeouts,
): Promise<BearerIdentity> {
  const path = file ?? variable(env, "GOOGLE_APPLICATION_CREDENTIALS");
  if (path !== undefined) return fileIdentity(path, patience);
  if (variable(env, "STORAGE_EMULATOR_HOST") !== undefined) return ANONYMOUS;
  return machineIdentity(env, patience).catch(() => ANONYMOUS);
}

async function fileIdentity(path: string, patience: HttpTimeouts): Promise<BearerIdentity> {
  const text = await readFile(path, "utf8").catch((error: unknown) => {
    throw new ToolError(`Cannot read the Google credentials ${path}`, { cause: error });
  });
  const account = parseAccount(text, path);
  const body = account.type === "service_account" ? assertionForm(account, path, Date.now()) : refreshForm(account);
  const url = new URL(stringField(account, "token_uri") ?? TOKEN_URL);
  return bearerFrom(await exchangeJson({ url, method: "POST", headers: FORM, body }, patience), url.host);
}

function parseAccount(text: string, path: string): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new ToolError(`${path} is no JSON, expected the credentials of a Google account`);
  }
  const account = asRecord(value) ?? {};
  if (account.type === "service_account" || account.type === "authorized_user") return account;
  const got = JSON.stringify(account.type);
  throw new ToolError(`${path} is of type ${got}, expected "service_account" or "authorized_user"`);
}

/** A JWT signed with the account's key, exchanged for a token (RFC 7523, section 2.1). */
export function assertionForm(account: Readonly<Record<string, unknown>>, path: string, nowMs: number): string {
  const issuer = stringField(account, "client_email");
  const key = stringField(account, "private_key");
  if (issuer === undefined || key === undefined) throw new ToolError(`${path} has no client_email or no private_key`);
  const issued = Math.floor(nowMs / 1000);
  const keyId = stringField(account, "private_key_id");
  const claims = {
    iss: issuer,
    scope: SCOPE,
    aud: stringField(account, "token_uri") ?? TOKEN_URL,
    iat: issued,
    exp: issued + TOKEN_SECONDS,
  };
  const header = { alg: "RS256", typ: "JWT", ...(keyId === undefined ? {} : { kid: keyId }) };
  const text = [header, claims].map((part) => Buffer.from(JSON.stringify(part)).toString("base64url")).join(".");
  const signature = signedBy(key, text, path);
  return new URLSearchParams({
    grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer",
    assertion: `${text}.${signature}`,
  }).toString();
}

function signedBy(key: string, text: string, path: string): string {
  try {
    return createSign("RSA-SHA256").update(text).sign(key, "base64url");
  } catch {
    throw new ToolError(`${path}: its private_key cannot sign`); // the cause may quote the key
  }
}

function refreshForm(account: Readonly<Record<string, unknown>>): string {
  return new URLSearchParams({
    grant_type: "refresh_token",
    client_id: stringField(account, "client_id") ?? "",
    client_secret: stringField(account, "client_secret") ?? "",
    refresh_token: stringField(account, "refresh_token") ?? "",
  }).toString();
}

async function machineIdentity(env: StoresEnvironment, { signal }: HttpTimeouts): Promise<BearerIdentity> {
  const host = variable(env, "GCE_METADATA_HOST") ?? "metadata.google.internal";
  const url = new URL(`http://${host}/computeMetadata/v1/instance/service-accounts/default/token`);
  const headers = { "metadata-flavor": "Google" };
  return bearerFrom(await exchangeJson({ url, headers }, { signal, stallMs: METADATA_MS }), url.host);
}

/** @throws ToolError when the response of `where` holds no token */
export function bearerFrom(json: Readonly<Record<string, unknown>>, where: string): BearerIdentity {
  const token = stringField(json, "access_token");
  const seconds = Number(json.expires_in ?? TOKEN_SECONDS);
  if (token === undefined || !/^[\x21-\x7e]+$/.test(token)) throw new ToolError(`${where} gives no token`);
  return { token, endsAtMs: Date.now() + (Number.isFinite(seconds) ? seconds : TOKEN_SECONDS) * 1000 };
}
