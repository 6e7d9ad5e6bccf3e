/**
 * Resolves S3 credentials in this order: credentials file, environment, profile, web identity, container role, instance
 * role, anonymous. Source: AWS SDKs and Tools Reference Guide, "Standardized credential providers". Temporary keys are
 * renewed before they expire.
 */
import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import type { HttpTimeouts } from "@nereid/server/files/http-exchange";
import { ToolError } from "@nereid/server/files/tool-error";
import { stringField } from "../credential-file.ts";
import { type StoresEnvironment, variable } from "../environment.ts";
import { exchangeJson, exchangeText } from "../exchange.ts";
import { xmlText } from "../xml.ts";
import { type Profile, readProfile } from "./profile-file.ts";
import { queryText, type S3Keys } from "./sigv4.ts";

export interface S3Identity {
  /** Undefined: unsigned requests. */
  readonly keys: S3Keys | undefined;
  readonly region: string;
  /** Expiry of the keys. */
  readonly endsAtMs: number;
}

const DEFAULT_REGION = "us-east-1";
/** Outside AWS the metadata service does not answer, and that must not delay the start. */
const METADATA_MS = 1000;
const FOREVER = Number.POSITIVE_INFINITY;

/** @throws ToolError when the configured credentials are unusable */
export async function findS3Identity(
  credential: unknown,
  env: StoresEnvironment,
  patience: HttpTimeouts,
): Promise<S3Identity> {
  const named = variable(env, "AWS_DEFAULT_REGION", "AWS_REGION");
  if (credential !== undefined) return fromFileEntry(credential, env, named);
  const keyId = variable(env, "AWS_ACCESS_KEY_ID");
  const secret = variable(env, "AWS_SECRET_ACCESS_KEY");
  if (keyId !== undefined && secret !== undefined) {
    const keys = { keyId, secret, sessionToken: variable(env, "AWS_SESSION_TOKEN") };
    return { keys, region: named ?? DEFAULT_REGION, endsAtMs: FOREVER };
  }
  const profileName = variable(env, "AWS_PROFILE");
  const profile = await profileOf(profileName ?? "default", env);
  const region = named ?? profile?.get("region") ?? DEFAULT_REGION;
  const keys = profile === undefined ? undefined : keysOfProfile(profile);
  if (keys !== undefined) return { keys, region, endsAtMs: FOREVER };
  if (profileName !== undefined) throw new ToolError(`AWS_PROFILE names '${profileName}', which has no keys`);
  const role = await roleKeys(env, region, patience);
  return role === undefined ? { keys: undefined, region, endsAtMs: FOREVER } : { ...role, region };
}

async function fromFileEntry(entry: unknown, env: StoresEnvironment, named: string | undefined): Promise<S3Identity> {
  const keyId = stringField(entry, "key_id");
  const secret = stringField(entry, "secret_key");
  const profileName = stringField(entry, "profile");
  const profile = profileName === undefined ? undefined : await profileOf(profileName, env);
  const region = stringField(entry, "region") ?? profile?.get("region") ?? named ?? DEFAULT_REGION;
  if (keyId !== undefined && secret !== undefined) {
    return { keys: { keyId, secret, sessionToken: stringField(entry, "session_token") }, region, endsAtMs: FOREVER };
  }
  const keys = profile === undefined ? undefined : keysOfProfile(profile);
  if (profileName !== undefined && keys === undefined) throw new ToolError(`Profile '${profileName}' has no keys`);
  return { keys, region, endsAtMs: FOREVER };
}

async function profileOf(name: string, env: StoresEnvironment): Promise<Profile | undefined> {
  const folder = join(variable(env, "HOME") ?? homedir(), ".aws");
  const keysFile = variable(env, "AWS_SHARED_CREDENTIALS_FILE") ?? join(folder, "credentials");
  const settingsFile = variable(env, "AWS_CONFIG_FILE") ?? join(folder, "config");
  const texts = await Promise.all([settingsFile, keysFile].map((file) => readFile(file, "utf8").catch(() => "")));
  const profiles = texts.flatMap((text) => readProfile(text, name) ?? []);
  return profiles.length === 0 ? undefined : new Map(profiles.flatMap((profile) => [...profile]));
}

function keysOfProfile(profile: Profile): S3Keys | undefined {
  const keyId = profile.get("aws_access_key_id");
  const secret = profile.get("aws_secret_access_key");
  if (keyId === undefined || secret === undefined) return undefined;
  return { keyId, secret, sessionToken: profile.get("aws_session_token") };
}

type RoleKeys = Pick<S3Identity, "keys" | "endsAtMs">;

async function roleKeys(env: StoresEnvironment, region: string, patience: HttpTimeouts): Promise<RoleKeys | undefined> {
  const tokenFile = variable(env, "AWS_WEB_IDENTITY_TOKEN_FILE");
  if (tokenFile !== undefined) return webIdentityKeys(tokenFile, env, region, patience);
  const container = containerUrl(env);
  if (container !== undefined) return containerKeys(container, env, patience);
  if (variable(env, "AWS_EC2_METADATA_DISABLED")?.toLowerCase() === "true") return undefined;
  return machineKeys(env, patience).catch(() => undefined);
}

async function webIdentityKeys(
  file: string,
  env: StoresEnvironment,
  region: string,
  patience: HttpTimeouts,
): Promise<RoleKeys> {
  const url = new URL(variable(env, "AWS_ENDPOINT_URL_STS") ?? `https://sts.${region}.amazonaws.com/`);
  const body = queryText({
    Action: "AssumeRoleWithWebIdentity",
    Version: "2011-06-15",
    RoleArn: variable(env, "AWS_ROLE_ARN") ?? "",
    RoleSessionName: variable(env, "AWS_ROLE_SESSION_NAME") ?? "nereid",
    WebIdentityToken: (await readFile(file, "utf8")).trim(),
  });
  const headers = { "content-type": "application/x-www-form-urlencoded" };
  const { text } = await exchangeText({ url, method: "POST", headers, body }, patience);
  return keysFrom(
    xmlText(text, "AccessKeyId"),
    xmlText(text, "SecretAccessKey"),
    xmlText(text, "SessionToken"),
    xmlText(text, "Expiration"),
  );
}

function containerUrl(env: StoresEnvironment): URL | undefined {
  const relative = variable(env, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  if (relative !== undefined) return new URL(relative, "http://169.254.170.2");
  const full = variable(env, "AWS_CONTAINER_CREDENTIALS_FULL_URI");
  return full === undefined ? undefined : new URL(full);
}

async function containerKeys(url: URL, env: StoresEnvironment, patience: HttpTimeouts): Promise<RoleKeys> {
  const tokenFile = variable(env, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  const token =
    tokenFile === undefined
      ? variable(env, "AWS_CONTAINER_AUTHORIZATION_TOKEN")
      : (await readFile(tokenFile, "utf8")).trim();
  const headers: Record<string, string> = token === undefined ? {} : { authorization: token };
  return keysFromJson(await exchangeJson({ url, headers }, patience));
}

async function machineKeys(env: StoresEnvironment, { signal }: HttpTimeouts): Promise<RoleKeys> {
  const patience = { signal, stallMs: METADATA_MS };
  const base = variable(env, "AWS_EC2_METADATA_SERVICE_ENDPOINT") ?? "http://169.254.169.254";
  const lease = { "x-aws-ec2-metadata-token-ttl-seconds": "21600" };
  const url = new URL("/latest/api/token", base);
  const { text: token } = await exchangeText({ url, method: "PUT", headers: lease }, patience);
  const headers = { "x-aws-ec2-metadata-token": token };
  const roles = new URL("/latest/meta-data/iam/security-credentials/", base);
  const { text: role } = await exchangeText({ url: roles, headers }, patience);
  return keysFromJson(await exchangeJson({ url: new URL(role.trim(), roles), headers }, patience));
}

function keysFromJson(json: Readonly<Record<string, unknown>>): RoleKeys {
  return keysFrom(
    stringField(json, "AccessKeyId"),
    stringField(json, "SecretAccessKey"),
    stringField(json, "Token"),
    stringField(json, "Expiration"),
  );
}

function keysFrom(
  keyId: string | undefined,
  secret: string | undefined,
  sessionToken: string | undefined,
  expiration: string | undefined,
): RoleKeys {
  if (keyId === undefined || secret === undefined) throw new ToolError("The service of credentials gives no keys");
  const endsAtMs = Date.parse(expiration ?? "");
  return { keys: { keyId, secret, sessionToken }, endsAtMs: Number.isNaN(endsAtMs) ? FOREVER : endsAtMs };
}
