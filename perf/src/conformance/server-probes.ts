/** Probes of a V2 server that need no model (KServe Open Inference Protocol, required_api.md, HTTP/REST). */
import { expectV2Error, type HttpAsk, jsonOf } from "./http-exchange.ts";
import { expectEqual, expectThat, Failure, type Probe, Skip } from "./probe.ts";

const SPEC = "KServe V2, HTTP/REST";
const EXTENSION = "Triton, extensions";

export function serverProbes(ask: HttpAsk): readonly Probe[] {
  const status =
    (path: string): Probe["run"] =>
    async () =>
      expectEqual(path, (await ask(path)).status, 200);
  return [
    { group: "health", name: "live", source: `${SPEC}: Server Live`, run: status("/v2/health/live") },
    { group: "health", name: "ready", source: `${SPEC}: Server Ready`, run: status("/v2/health/ready") },
    {
      group: "metadata",
      name: "server",
      source: `${SPEC}: Server Metadata`,
      async run() {
        const { name, version, extensions } = jsonOf(await ask("/v2"), "/v2");
        expectThat(typeof name === "string" && typeof version === "string", "/v2: expected the texts name and version");
        expectThat(Array.isArray(extensions), "/v2: expected the list extensions");
      },
    },
    {
      group: "errors",
      name: "unknown model, metadata",
      source: `${SPEC}: Model Metadata, Error`,
      run: async () => expectV2Error(await ask("/v2/models/no_such_model"), "/v2/models/no_such_model"),
    },
    {
      group: "errors",
      name: "unknown model, inference",
      source: `${SPEC}: Inference, Error`,
      run: async () => expectV2Error(await ask("/v2/models/no_such_model/infer", '{"inputs":[]}'), "infer"),
    },
    {
      group: "repository",
      name: "index",
      source: `${EXTENSION}: Model Repository`,
      async run() {
        await needsExtension(ask, "model_repository");
        const answer = await ask("/v2/repository/index", "{}");
        const list: unknown = JSON.parse(answer.body.toString());
        if (!Array.isArray(list)) throw new Failure("index: expected a list");
        for (const each of list as readonly { readonly name?: unknown }[]) {
          expectThat(typeof each.name === "string", "index: expected each entry to have the text name");
        }
      },
    },
    {
      group: "statistics",
      name: "all models",
      source: `${EXTENSION}: Statistics`,
      async run() {
        await needsExtension(ask, "statistics");
        const { model_stats: models } = jsonOf(await ask("/v2/models/stats"), "/v2/models/stats");
        expectThat(Array.isArray(models), "/v2/models/stats: expected the list model_stats");
      },
    },
  ];
}

/** Extensions may have a version or an addition in brackets. @throws Skip when the server does not announce it */
export async function needsExtension(ask: HttpAsk, name: string): Promise<void> {
  const { extensions } = jsonOf(await ask("/v2"), "/v2");
  const announced = Array.isArray(extensions) ? extensions.map(String) : [];
  if (!announced.some((each) => each === name || each.startsWith(`${name}(`))) {
    throw new Skip(`the server does not announce the extension ${name}`);
  }
}
