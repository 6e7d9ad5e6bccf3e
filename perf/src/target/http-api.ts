/** The questions of `ServerApi` over HTTP (KServe V2 and Triton's extensions). */
import { ToolError } from "@nereid/server/files/tool-error";
import {
  type ConfigMessage,
  factsOf,
  type MetadataMessage,
  type ServerApi,
  type StatisticsMessage,
  statisticsOf,
} from "./server-api.ts";

const TIMEOUT_MS = 30_000;
const NOT_FOUND = [404, 405, 501];

/** `base` has no slash at its end. */
export function createHttpApi(base: string, headers: Readonly<Record<string, string>>): ServerApi {
  const ask = async (path: string, body?: object): Promise<unknown> => {
    const init = body === undefined ? { headers } : { method: "POST", body: JSON.stringify(body), headers };
    const response = await fetch(`${base}${path}`, { ...init, signal: AbortSignal.timeout(TIMEOUT_MS) }).catch(
      (cause: unknown) => {
        const fix = "Check that the server runs, and -u";
        throw new ToolError(`${base} does not answer: ${reasonOf(cause)}`, { fix, cause });
      },
    );
    const text = await response.text();
    if (NOT_FOUND.includes(response.status) && body === undefined && !isV2Error(text)) return undefined;
    if (!response.ok) throw new ToolError(`${base}${path}: ${response.status} ${text.slice(0, 500)}`);
    return text === "" ? {} : JSON.parse(text);
  };
  const pathOf = (model: string, version: string): string =>
    `/v2/models/${encodeURIComponent(model)}${version === "" ? "" : `/versions/${version}`}`;
  return {
    async modelFacts(model, version) {
      const metadata = await ask(pathOf(model, version));
      if (metadata === undefined) throw new ToolError(`${base} has no ${pathOf(model, version)}: expected a V2 server`);
      const config = await ask(`${pathOf(model, version)}/config`);
      return factsOf(metadata as MetadataMessage, config as ConfigMessage | undefined);
    },
    async statistics(model, version) {
      const answer = await ask(`${pathOf(model, version)}/stats`);
      const [first] = (answer as { model_stats?: readonly StatisticsMessage[] } | undefined)?.model_stats ?? [];
      return first === undefined ? undefined : statisticsOf(first);
    },
    async registerMemory(name, key, byteSize) {
      await ask(`/v2/systemsharedmemory/region/${name}/register`, { key, offset: 0, byte_size: byteSize });
    },
    async unregisterMemory(name) {
      await ask(`/v2/systemsharedmemory/region/${name}/unregister`, {});
    },
    close: () => undefined,
  };
}

/** An error of the protocol, as against one of a server that has no such path. */
function isV2Error(text: string): boolean {
  return /^\s*\{\s*"error"\s*:/.test(text);
}

function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return cause instanceof Error ? cause.message : String(cause);
}
