/**
 * Credentials for Azure Blob Storage: account key, shared access signature, managed identity, workload identity,
 * service principal, or anonymous. Source: Azure documentation, "Authorize access to data in Azure Storage"; RFC 6749,
 * section 4.4.
 */
import { readFile } from "node:fs/promises";
import type { HttpTimeouts } from "@nereid/server/files/http-exchange";
import { ToolError } from "@nereid/server/files/tool-error";
import { stringField } from "../credential-file.ts";
import { type StoresEnvironment, variable } from "../environment.ts";
import { exchangeJson } from "../exchange.ts";
import { ANONYMOUS, type BearerIdentity, bearerFrom } from "../gcs/gcs-identity.ts";

export type AzureIdentity = { readonly endsAtMs: number } & (
  | { readonly kind: "key"; readonly account: string; readonly key: string }
  | { readonly kind: "sas"; readonly query: string }
  | { readonly kind: "token"; readonly token: string }
  | { readonly kind: "anonymous" }
);

const FOREVER = Number.POSITIVE_INFINITY;
const RESOURCE = "https://storage.azure.com/";
const METADATA_MS = 2000;
const FORM = { "content-type": "application/x-www-form-urlencoded" };

/** Fields of AZURE_STORAGE_CONNECTION_STRING by lower-case name. Pure. */
export function parseConnectionString(text: string): ReadonlyMap<string, string> {
  const fields = new Map<string, string>();
  for (const part of text.split(";")) {
    const at = part.indexOf("=");
    if (at > 0) fields.set(part.slice(0, at).trim().toLowerCase(), part.slice(at + 1).trim());
  }
  return fields;
}

/** `account` is that of the address. @throws ToolError when the configured credentials are unusable */
export async function findAzureIdentity(
  credential: unknown,
  account: string,
  env: StoresEnvironment,
  patience: HttpTimeouts,
): Promise<AzureIdentity> {
  const { type, clientId, named, key, sas } =
    credential === undefined ? fromEnvironment(env) : fromFileEntry(credential);
  if (type === "managed_identity") return tokenOf(await machineToken(clientId, env, patience));
  if (type === "default") return tokenOf(await defaultToken(clientId, env, patience));
  if (type !== undefined && type !== "key") {
    throw new ToolError(`Azure's type of authorization is '${type}', expected key, managed_identity or default`);
  }
  if (key !== undefined) return { kind: "key", account: named ?? account, key, endsAtMs: FOREVER };
  if (sas !== undefined) return { kind: "sas", query: sas.replace(/^\?/, ""), endsAtMs: FOREVER };
  return { kind: "anonymous", endsAtMs: FOREVER };
}

interface AzureFields {
  readonly type: string | undefined;
  readonly clientId: string | undefined;
  readonly named: string | undefined;
  readonly key: string | undefined;
  readonly sas: string | undefined;
}

function fromEnvironment(env: StoresEnvironment): AzureFields {
  const connection = parseConnectionString(variable(env, "AZURE_STORAGE_CONNECTION_STRING") ?? "");
  return {
    type: variable(env, "AZURE_STORAGE_AUTH_TYPE"),
    clientId: variable(env, "AZURE_STORAGE_CLIENT_ID"),
    named: variable(env, "AZURE_STORAGE_ACCOUNT") ?? connection.get("accountname"),
    key: variable(env, "AZURE_STORAGE_KEY") ?? connection.get("accountkey"),
    sas: variable(env, "AZURE_STORAGE_SAS_TOKEN") ?? connection.get("sharedaccesssignature"),
  };
}

function fromFileEntry(credential: unknown): AzureFields {
  return {
    type: stringField(credential, "auth_type"),
    clientId: stringField(credential, "client_id"),
    named: stringField(credential, "account_str"),
    key: stringField(credential, "account_key"),
    sas: undefined,
  };
}

function tokenOf({ token, endsAtMs }: BearerIdentity): AzureIdentity {
  return token === undefined ? { kind: "anonymous", endsAtMs } : { kind: "token", token, endsAtMs };
}

async function defaultToken(
  clientId: string | undefined,
  env: StoresEnvironment,
  patience: HttpTimeouts,
): Promise<BearerIdentity> {
  const tenant = variable(env, "AZURE_TENANT_ID");
  const client = variable(env, "AZURE_CLIENT_ID");
  if (tenant !== undefined && client !== undefined) {
    const file = variable(env, "AZURE_FEDERATED_TOKEN_FILE");
    const secret = variable(env, "AZURE_CLIENT_SECRET");
    const proof =
      file !== undefined
        ? {
            client_assertion_type: "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
            client_assertion: (await readFile(file, "utf8")).trim(),
          }
        : secret !== undefined
          ? { client_secret: secret }
          : undefined;
    if (proof !== undefined) return programToken(tenant, { client_id: client, ...proof }, env, patience);
  }
  return machineToken(clientId, env, patience).catch(() => ANONYMOUS);
}

async function programToken(
  tenant: string,
  fields: Readonly<Record<string, string>>,
  env: StoresEnvironment,
  patience: HttpTimeouts,
): Promise<BearerIdentity> {
  const host = variable(env, "AZURE_AUTHORITY_HOST") ?? "https://login.microsoftonline.com/";
  const url = new URL(`${encodeURIComponent(tenant)}/oauth2/v2.0/token`, host.endsWith("/") ? host : `${host}/`);
  const body = new URLSearchParams({ grant_type: "client_credentials", scope: `${RESOURCE}.default`, ...fields });
  return bearerFrom(
    await exchangeJson({ url, method: "POST", headers: FORM, body: body.toString() }, patience),
    url.host,
  );
}

async function machineToken(
  clientId: string | undefined,
  env: StoresEnvironment,
  { signal }: HttpTimeouts,
): Promise<BearerIdentity> {
  const service = variable(env, "IDENTITY_ENDPOINT");
  const url = new URL(service ?? "http://169.254.169.254/metadata/identity/oauth2/token");
  url.searchParams.set("api-version", service === undefined ? "2018-02-01" : "2019-08-01");
  url.searchParams.set("resource", RESOURCE);
  if (clientId !== undefined) url.searchParams.set("client_id", clientId);
  const secret = variable(env, "IDENTITY_HEADER");
  const headers = { metadata: "true", ...(secret === undefined ? {} : { "x-identity-header": secret }) };
  return bearerFrom(await exchangeJson({ url, headers }, { signal, stallMs: METADATA_MS }), url.host);
}
