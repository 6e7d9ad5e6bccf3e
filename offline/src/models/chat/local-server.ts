/** A server inside this process for one chat: on the loopback interface, at a port that the system chooses. */
import process from "node:process";
import { logSettings } from "@nereid/server/config/flags/log-settings";
import { parseServerFlags } from "@nereid/server/config/flags/parse-server-flags";
import { ServerError } from "@nereid/server/core/server-error";
import type { SpareHost } from "@nereid/server/engine/host/spare-host";
import { ToolError } from "@nereid/server/files/tool-error";
import { startServer } from "@nereid/server/main/start-server";
import { ServerLog } from "@nereid/server/observe/log";

export interface LocalServer extends AsyncDisposable {
  readonly url: string;
}

const HOST = "127.0.0.1";
const FLAGS = [
  `--http-address=${HOST}`,
  "--http-port=0",
  "--allow-grpc=false",
  "--allow-metrics=false",
  "--log-info=false",
  "--log-warning=false",
  "--exit-timeout-secs=2",
];

/** `models`: loaded instead of all; empty: all of the repository. `spareHost`: for the first language model. @throws ToolError when they do not load */
export async function startLocalServer(
  repository: string,
  models: readonly string[],
  spareHost: SpareHost | undefined,
): Promise<LocalServer> {
  const chosen =
    models.length === 0 ? [] : ["--model-control-mode=explicit", ...models.map((name) => `--load-model=${name}`)];
  const parsed = parseServerFlags([`--model-repository=${repository}`, ...FLAGS, ...chosen], process.env);
  if (parsed.kind === "usage") throw new Error(parsed.text);
  const { options } = parsed;
  try {
    const server = await startServer(
      options,
      new ServerLog(logSettings(options.log)),
      spareHost === undefined ? {} : { spareHost },
    );
    const port = server.endpoints.get("http")?.port ?? 0;
    return {
      url: `http://${HOST}:${port}`,
      async [Symbol.asyncDispose]() {
        server.hurry();
        await server.stop();
      },
    };
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
    throw new ToolError(error.message, {
      cause: error,
      fix: `For files, lines and fixes: nereid doctor ${repository}`,
    });
  }
}
