/**
 * Hugging Face hub settings from the environment, with the variables and precedence of huggingface_hub ("Environment
 * variables"). Pure.
 */

import { join } from "node:path";
import type { Environment } from "../core/environment.ts";
import { ToolError } from "../files/tool-error.ts";

export interface HubSettings {
  /** Without a trailing slash. */
  readonly endpoint: string;
  /** From a variable; the token file is read only when there is none. */
  readonly token: string | undefined;
  readonly tokenFile: string;
  readonly cacheFolder: string;
  readonly isOffline: boolean;
  /** Inactivity timeout of a connection. */
  readonly stallMs: number;
}

const DEFAULT_ENDPOINT = "https://huggingface.co";
const DEFAULT_STALL_SECONDS = 30;
const MAX_STALL_SECONDS = 3600;

/** @throws ToolError when a variable is invalid */
export function hubSettings(env: Environment, homeFolder: string): HubSettings {
  const cacheHome = nonEmpty(env.XDG_CACHE_HOME) ?? join(homeFolder, ".cache");
  const hubHome = nonEmpty(env.HF_HOME) ?? join(cacheHome, "huggingface");
  return {
    endpoint: endpointOf(nonEmpty(env.HF_ENDPOINT) ?? DEFAULT_ENDPOINT),
    token: nonEmpty(env.HF_TOKEN) ?? nonEmpty(env.HUGGING_FACE_HUB_TOKEN),
    tokenFile: nonEmpty(env.HF_TOKEN_PATH) ?? join(hubHome, "token"),
    cacheFolder: nonEmpty(env.HF_HUB_CACHE) ?? nonEmpty(env.HUGGINGFACE_HUB_CACHE) ?? join(hubHome, "hub"),
    isOffline: isTrue(env.HF_HUB_OFFLINE) || isTrue(env.TRANSFORMERS_OFFLINE),
    stallMs: stallSeconds(env.HF_HUB_DOWNLOAD_TIMEOUT) * 1000,
  };
}

function nonEmpty(text: string | undefined): string | undefined {
  const trimmed = text?.trim();
  return trimmed === "" ? undefined : trimmed;
}

function isTrue(text: string | undefined): boolean {
  return /^(1|on|yes|true)$/i.test(text?.trim() ?? "");
}

function endpointOf(text: string): string {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) {
    throw new ToolError(`HF_ENDPOINT is '${text}', expected an address such as ${DEFAULT_ENDPOINT}`);
  }
  return text.replace(/\/+$/, "");
}

function stallSeconds(text: string | undefined): number {
  const given = nonEmpty(text);
  if (given === undefined) return DEFAULT_STALL_SECONDS;
  const seconds = Number(given);
  if (seconds > 0 && seconds <= MAX_STALL_SECONDS) return seconds;
  throw new ToolError(`HF_HUB_DOWNLOAD_TIMEOUT is '${given}', expected seconds from 0 to ${MAX_STALL_SECONDS}`);
}
