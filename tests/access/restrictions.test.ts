/**
 * Every restriction at every listener: a route without the header of its group is refused, and with it it is served. The
 * routes come from the tables of the front ends, and the table of docs/restricted-access.md from them.
 */
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { status } from "@grpc/grpc-js";
import { parseServerFlags } from "@nereid/server/config/flags/parse-server-flags";
import {
  OPENAI_RESTRICTED_APIS,
  type OpenAiRestrictedApi,
  RESTRICTED_APIS,
  type RestrictedApi,
} from "@nereid/server/core/restricted-api";
import { frontendsOf, type RunningFrontends } from "@nereid/server/main/frontends";
import { MetricRegistry } from "@nereid/server/observe/metrics";
import { anthropicRoutes } from "@nereid/server/protocol/anthropic/anthropic-api";
import { openAiRestrictedApi } from "@nereid/server/protocol/api/openai-restriction";
import { FakeModelServer } from "@nereid/server/protocol/grpc/fake-model-server.test-support";
import { TestLog } from "@nereid/server/protocol/grpc/test-peer.test-support";
import { ollamaRoutes } from "@nereid/server/protocol/ollama/ollama-api";
import { openAiRoutes } from "@nereid/server/protocol/openai/openai-api";
import { freePort } from "../support/server-process.ts";
import { grpcRoutes, type HttpRoute, httpRoutes, RawGrpc } from "./routes.ts";

type Listener = "HTTP" | "one port" | "OpenAI port" | "SageMaker" | "Vertex AI" | "metrics";

const repository = mkdtempSync(join(tmpdir(), "restrictions-"));
const PAGE = fileURLToPath(new URL("../../docs/restricted-access.md", import.meta.url));
const CONTEXT = { server: undefined, models: undefined } as never;
const JSON_ROUTES = [...openAiRoutes(CONTEXT), ...anthropicRoutes(CONTEXT), ...ollamaRoutes(CONTEXT)];
const HEADER = (api: string): Record<string, string> => ({ [`x-${api}`]: `open ${api}` });
const METADATA = (api: string): Record<string, string> => ({ [`triton-grpc-protocol-x-${api}`]: `open ${api}` });
const ports = new Map<Listener | "gRPC" | "gRPC of one port", number>();
const running: RunningFrontends[] = [];

async function start(...flags: string[]): Promise<RunningFrontends> {
  const all = [
    `--model-repository=${repository}`,
    "--http-address=127.0.0.1",
    "--grpc-address=127.0.0.1",
    "--metrics-port=0",
  ];
  const parsed = parseServerFlags([...all, "--http-port=0", "--grpc-port=0", ...flags], {});
  assert.equal(parsed.kind, "options", JSON.stringify(parsed));
  const { options } = parsed as Extract<typeof parsed, { kind: "options" }>;
  const env = { AIP_PREDICT_ROUTE: "/predict", AIP_HEALTH_ROUTE: "/health" };
  const front = frontendsOf(options, new FakeModelServer(), new MetricRegistry(), new TestLog(), { env });
  await front.listen();
  running.push(front);
  return front;
}

before(async () => {
  mkdirSync(join(repository, "m", "1"), { recursive: true });
  const openAiPort = await freePort();
  const locks = [
    ...RESTRICTED_APIS.map((api) => `--http-restricted-api=${api}:x-${api}=open ${api}`),
    ...RESTRICTED_APIS.map((api) => `--grpc-restricted-protocol=${api}:x-${api}=open ${api}`),
  ];
  const clouds = ["--allow-sagemaker=true", "--sagemaker-port=0", "--allow-vertex-ai=true", "--vertex-ai-port=0"];
  const apart = await start(...locks, ...clouds, `--openai-port=${openAiPort}`);
  const together = await start(...locks, "--one-port=true");
  const portOf = (front: RunningFrontends, name: Parameters<RunningFrontends["endpoints"]["get"]>[0]) =>
    front.endpoints.get(name)?.port ?? 0;
  ports
    .set("HTTP", portOf(apart, "http"))
    .set("OpenAI port", openAiPort)
    .set("SageMaker", portOf(apart, "sagemaker"))
    .set("Vertex AI", portOf(apart, "vertex_ai"))
    .set("metrics", portOf(apart, "metrics"))
    .set("gRPC", portOf(apart, "grpc"))
    .set("one port", portOf(together, "http"))
    .set("gRPC of one port", portOf(together, "http"));
});
after(async () => {
  await Promise.all(running.flatMap((front) => [front.closeInference(100), front.closeMetrics()]));
  rmSync(repository, { recursive: true });
});

/** Routes of the JSON APIs, with a model in the place of their parameters. */
const jsonRoutes: readonly HttpRoute[] = JSON_ROUTES.map(({ api, method, path }) => ({
  api,
  method,
  path: path.replace(/\{[^}]*\}/g, "simple"),
}));

/** A redirected call of Vertex AI reaches V2's routes; it may not load, unload or register. */
interface CloudRoute extends HttpRoute {
  readonly headers?: Readonly<Record<string, string>>;
}
const SAGEMAKER: readonly CloudRoute[] = [
  { api: "health", method: "GET", path: "/ping" },
  { api: "inference", method: "POST", path: "/invocations" },
  { api: "inference", method: "POST", path: "/models/m/invoke" },
  { api: "model-repository", method: "GET", path: "/models" },
  { api: "model-repository", method: "POST", path: "/models" },
  { api: "model-repository", method: "GET", path: "/models/m" },
  { api: "model-repository", method: "DELETE", path: "/models/m" },
];
const REACHED = ["health", "metadata", "model-config", "statistics", "inference"];
const VERTEX: readonly CloudRoute[] = [
  { api: "health", method: "GET", path: "/health" },
  ...[...httpRoutes("simple"), { api: "shared-memory", path: "/v2/systemsharedmemory/status" } as const]
    .filter(({ api, path }) => REACHED.includes(api) && !path.includes("generate") && !path.includes("trace"))
    .concat({ api: "model-repository", method: "POST", path: "/v2/repository/index" })
    .map(({ api, path }) => ({
      api,
      method: "POST" as const,
      path: "/predict",
      headers: { "x-vertex-ai-triton-redirect": path.slice(1) },
    })),
];
const ROUTES: Readonly<Record<Listener, readonly CloudRoute[]>> = {
  HTTP: [...httpRoutes("simple"), ...jsonRoutes],
  "one port": [...httpRoutes("simple"), ...jsonRoutes],
  "OpenAI port": jsonRoutes,
  SageMaker: SAGEMAKER,
  "Vertex AI": VERTEX,
  metrics: [],
};

async function ask(listener: Listener, { method, path, headers: own }: CloudRoute, headers: Record<string, string>) {
  const body = method === "POST" ? { body: "{}" } : {};
  const url = `http://127.0.0.1:${ports.get(listener)}${path}`;
  const response = await fetch(url, { method, headers: { ...own, ...headers }, ...body });
  return { status: response.status, text: await response.text() };
}

for (const listener of Object.keys(ROUTES) as Listener[]) {
  for (const api of RESTRICTED_APIS) {
    const routes = ROUTES[listener].filter((route) => route.api === api);
    test(`${listener}: ${routes.length} routes of ${api} need its header`, async () => {
      const others = Object.assign({}, ...RESTRICTED_APIS.filter((each) => each !== api).map(HEADER));
      for (const route of routes) {
        const name = `${route.method} ${route.path} ${JSON.stringify(route.headers ?? {})}`;
        for (const wrong of [{}, others, { [`x-${api}`]: "open" }]) {
          const refused = await ask(listener, route, wrong);
          assert.equal(refused.status, 403, name);
          assert.match(refused.text, new RegExp(`This API is restricted, expecting header 'x-${api}'`));
        }
        const { status: served } = await ask(listener, route, HEADER(api));
        assert.ok(![401, 403].includes(served), `${name}: ${served}`);
      }
    });
  }
}

for (const listener of ["gRPC", "gRPC of one port"] as const) {
  test(`${listener}: every RPC of a group needs its metadata`, async () => {
    using client = new RawGrpc(ports.get(listener) ?? 0);
    for (const route of grpcRoutes()) {
      const { code, details } = await client.call(route, {});
      const isRestricted = code === status.UNAVAILABLE && details.includes("This protocol is restricted");
      assert.equal(isRestricted, route.group !== undefined, route.path);
      const open = await client.call(route, METADATA(route.group ?? "none"));
      assert.doesNotMatch(open.details, /restricted/, route.path);
    }
  });
}

test("no restriction holds for the metrics port", async () => {
  const { status: code } = await ask("metrics", { api: "statistics", method: "GET", path: "/metrics" }, {});
  assert.equal(code, 200);
});

for (const api of OPENAI_RESTRICTED_APIS) {
  test(`--openai-restricted-api ${api} holds at the HTTP and the OpenAI port`, async () => {
    const openAiPort = await freePort();
    const lock = ["--openai-restricted-api", api, "admin-key", "admin value"];
    const front = await start(...lock, "--one-port=true", `--openai-port=${openAiPort}`, "--openai-frontend=triton");
    const routes = [
      ...jsonRoutes.map((route) => ({ ...route, group: openAiRestrictedApi(route.api, route.path) })),
      { api: "statistics", method: "GET", path: "/metrics", group: "metrics" } as const,
    ];
    for (const port of [openAiPort, front.endpoints.get("http")?.port ?? 0]) {
      ports.set("OpenAI port", port);
      for (const { group, ...route } of routes) {
        const isHeld = isWithin(group, api);
        for (const headers of [{}, { "admin-key": "admin" }, { "wrong-key": "admin value" }]) {
          const { status: code, text } = await ask("OpenAI port", route, headers);
          assert.equal(code === 401, isHeld, `${route.path}: ${code}`);
          assert.equal(text.includes("This API is restricted, expecting header 'admin-key' with valid value"), isHeld);
        }
        const { status: code } = await ask("OpenAI port", route, { "admin-key": "admin value" });
        assert.notEqual(code, 401, route.path);
      }
      assert.equal(
        (await ask("HTTP", { api: "health", method: "GET", path: "/v2/health/live" }, HEADER("health"))).status,
        200,
      );
    }
  });
}

/** Embeddings are inference, and the management of models is of their repository, where they have no header of their own. */
function isWithin(group: OpenAiRestrictedApi, api: OpenAiRestrictedApi): boolean {
  if (group === "embedding") return api === "embedding" || api === "inference";
  return group === api || (group === "model-management" && api === "model-repository");
}

test("docs/restricted-access.md has the table of routes", () => {
  const listeners = Object.keys(ROUTES) as Listener[];
  const countOf = (routes: readonly { readonly api?: RestrictedApi }[], api: RestrictedApi): string =>
    String(routes.filter((route) => route.api === api).length || "-");
  const rpcs = grpcRoutes().map(({ group }) => (group === undefined ? {} : { api: group }));
  const lines = [
    `| restriction | ${listeners.join(" | ")} | gRPC |`,
    `| --- |${" --- |".repeat(listeners.length + 1)}`,
    ...RESTRICTED_APIS.map(
      (api) =>
        `| \`${api}\` | ${listeners.map((each) => countOf(ROUTES[each], api)).join(" | ")} | ${countOf(rpcs, api)} |`,
    ),
  ];
  const page = readFileSync(PAGE, "utf8");
  assert.ok(page.includes(lines.join("\n")), `the table of ${PAGE} should be:\n${lines.join("\n")}`);
});
