import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { status } from "@grpc/grpc-js";
import { callUnary, decode, encode, identity, openTestBed, type TestBed } from "../test-peer.test-support.ts";

let bed: TestBed;
before(async () => {
  bed = await openTestBed();
});
after(async () => {
  await bed.close();
});

const answers: [rpc: string, request: object, answer: object][] = [
  ["ServerLive", {}, { live: true }],
  ["ServerReady", {}, { ready: true }],
  ["ModelReady", { name: "simple" }, { ready: true }],
  ["ModelReady", { name: "simple", version: "1x" }, { ready: true }],
  ["ModelReady", { name: "nope" }, { ready: false }],
  ["ServerMetadata", {}, { name: "fake", version: "1.2.3", extensions: ["statistics"] }],
  [
    "ModelMetadata",
    { name: "simple" },
    {
      name: "simple",
      versions: ["1"],
      platform: "fake",
      inputs: [{ name: "INPUT0", datatype: "INT32", shape: [-1, 4] }],
      outputs: [],
    },
  ],
  ["RepositoryIndex", { ready: true }, { models: [{ name: "simple", version: "1", state: "READY", reason: "" }] }],
  ["SystemSharedMemoryStatus", {}, { regions: {} }],
  ["CudaSharedMemoryStatus", {}, { regions: {} }],
  ["grpc.health.v1.Health/Check", {}, { status: "SERVING" }],
  ["grpc.health.v1.Health/Check", { service: "any" }, { status: "SERVING" }],
];
for (const [rpc, request, answer] of answers) {
  test(`${rpc} answers ${JSON.stringify(request)}`, async () => {
    assert.deepEqual(await callUnary(bed.client, rpc, request), answer);
  });
}

const DISABLED = "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable.";
const refusals: [rpc: string, request: object, code: number, details: string][] = [
  [
    "ModelReady",
    { name: "simple", version: "abc" },
    status.INVALID_ARGUMENT,
    "failed to get model version from specified version string 'abc' (details: stol), version should be an integral value > 0",
  ],
  [
    "ModelReady",
    { name: "simple", version: "-1" },
    status.INVALID_ARGUMENT,
    "invalid model version specified '-1' , version should be an integral value > 0",
  ],
  ["ModelConfig", { name: "nope" }, status.NOT_FOUND, "Request for unknown model: 'nope' is not found"],
  [
    "RepositoryIndex",
    { repository_name: "x" },
    status.UNIMPLEMENTED,
    "'repository_name' specification is not supported",
  ],
  [
    "RepositoryModelLoad",
    { model_name: "m", parameters: { config: { int64_param: 1 } } },
    status.INVALID_ARGUMENT,
    "invalid value type for load parameter 'config', expected string_param.",
  ],
  [
    "RepositoryModelLoad",
    { model_name: "m", parameters: { "file:1/m": { string_param: "x" } } },
    status.INVALID_ARGUMENT,
    "invalid value type for load parameter 'file:1/m', expected bytes_param.",
  ],
  [
    "RepositoryModelLoad",
    { model_name: "m", parameters: { zzz: { string_param: "x" } } },
    status.INVALID_ARGUMENT,
    "unrecognized load parameter 'zzz'.",
  ],
  [
    "RepositoryModelUnload",
    { model_name: "m", parameters: { unload_dependents: { string_param: "x" } } },
    status.INVALID_ARGUMENT,
    "invalid value type for 'unload_dependents' parameter, expected bool_param.",
  ],
  ["SystemSharedMemoryStatus", { name: "r" }, status.NOT_FOUND, "Unable to find system shared memory region: 'r'"],
  ["SystemSharedMemoryRegister", { name: "r" }, status.UNIMPLEMENTED, DISABLED],
  ["SystemSharedMemoryUnregister", {}, status.UNIMPLEMENTED, DISABLED],
  [
    "CudaSharedMemoryRegister",
    { name: "r" },
    status.INVALID_ARGUMENT,
    "failed to register CUDA shared memory region: 'r', GPUs not supported",
  ],
  [
    "TraceSetting",
    { settings: { trace_rate: { value: ["1", "2"] } } },
    status.INVALID_ARGUMENT,
    "expect only 1 value for 'trace_rate'",
  ],
  [
    "LogSettings",
    { settings: { log_info: { string_param: "true" } } },
    status.INVALID_ARGUMENT,
    "expect boolean for 'log_info'",
  ],
  [
    "LogSettings",
    { settings: { log_verbose_level: { string_param: "1" } } },
    status.INVALID_ARGUMENT,
    "expect int32 for 'log_verbose_level'",
  ],
  [
    "LogSettings",
    { settings: { log_format: { string_param: "x" } } },
    status.INVALID_ARGUMENT,
    "invalid argument for log_format, got: x",
  ],
  [
    "LogSettings",
    { settings: { log_file: { string_param: "/x" } } },
    status.UNIMPLEMENTED,
    "log file location can not be updated through network protocol",
  ],
];
for (const [rpc, request, code, details] of refusals) {
  test(`${rpc} refuses ${JSON.stringify(request)}`, async () => {
    await assert.rejects(callUnary(bed.client, rpc, request), { code, details });
  });
}

test("ModelConfig gives the configuration as a message", async () => {
  const { config } = await callUnary(bed.client, "ModelConfig", { name: "simple" });
  assert.equal(config.max_batch_size, 8);
  assert.deepEqual(config.version_policy, { policy_choice: "latest", latest: { num_versions: 1 } });
  assert.deepEqual(config.metric_tags, { a: "b" });
  assert.equal(config.scheduling_choice, undefined);
});

test("ModelStatistics gives 64-bit counters", async () => {
  const { model_stats } = await callUnary(bed.client, "ModelStatistics", { name: "simple" });
  assert.equal(model_stats[0].last_inference, 1_790_000_000_000);
  assert.deepEqual(model_stats[0].inference_stats.success, { count: 1, ns: 5_000_000_000 });
  assert.equal(model_stats[0].response_stats["0"].success.count, 1);
});

test("RepositoryModelLoad and Unload hand their parameters on", async () => {
  const parameters = { config: { string_param: "{}" }, "file:1/model": { bytes_param: Buffer.from("abc") } };
  await callUnary(bed.client, "RepositoryModelLoad", { model_name: "m", parameters });
  const load = bed.server.loads.at(-1);
  assert.equal(load?.options.config, "{}");
  assert.deepEqual(
    [...(load?.options.files ?? [])].map(([path, bytes]) => [path, Buffer.from(bytes).toString()]),
    [["1/model", "abc"]],
  );
  const unload = { model_name: "m", parameters: { unload_dependents: { bool_param: true } } };
  await callUnary(bed.client, "RepositoryModelUnload", unload);
  assert.deepEqual(bed.server.unloads.at(-1), { name: "m", dependents: true });
});

test("LogSettings changes what is given and answers with all", async () => {
  const settings = { log_verbose_level: { uint32_param: 2 }, log_format: { string_param: "ISO8601" }, zzz: {} };
  const answer = await callUnary(bed.client, "LogSettings", { settings });
  assert.equal(answer.settings.log_verbose_level.uint32_param, 2);
  assert.equal(answer.settings.log_format.string_param, "ISO8601");
  assert.equal(answer.settings.log_file.parameter_choice, "string_param");
});

test("health answers fail while the server ends", async () => {
  bed.server.state = "exiting";
  for (const rpc of ["ServerLive", "ServerReady", "ModelReady", "grpc.health.v1.Health/Check"]) {
    const refusal = { code: status.UNAVAILABLE, details: "Server exiting" };
    await assert.rejects(callUnary(bed.client, rpc, {}), refusal, rpc);
  }
  bed.server.state = "running";
});

test("a server that could not be set up is not live", async () => {
  bed.server.state = "failed";
  assert.equal((await callUnary(bed.client, "ServerLive", {})).live, false);
  bed.server.state = "running";
  assert.equal((await callUnary(bed.client, "ServerLive", {})).live, true);
});

test("Watch sends the status and each change of it", async () => {
  const path = "/grpc.health.v1.Health/Watch";
  const request = encode("grpc.health.v1.HealthCheckRequest", {});
  const stream = bed.client.makeServerStreamRequest(path, identity, identity, request);
  stream.on("error", () => stream.destroy());
  const seen: string[] = [];
  for await (const bytes of stream) {
    seen.push(decode("grpc.health.v1.HealthCheckResponse", bytes).status);
    bed.server.isReady = seen.length === 2;
    if (seen.length === 3) break;
  }
  assert.deepEqual(seen, ["SERVING", "NOT_SERVING", "SERVING"]);
  bed.server.isReady = true;
});

for (const version of ["v1", "v1alpha"]) {
  test(`reflection ${version} lists services and gives files with what they import`, async () => {
    const scope = `grpc.reflection.${version}`;
    const stream = bed.client.makeBidiStreamRequest(
      `/${scope}.ServerReflection/ServerReflectionInfo`,
      identity,
      identity,
    );
    const requests = [
      { list_services: "" },
      { file_containing_symbol: "inference.GRPCInferenceService.ModelInfer" },
      { file_by_filename: "model_config.proto" },
      { file_containing_symbol: "nope" },
      { all_extension_numbers_of_type: "inference.ModelConfig" },
    ];
    for (const request of requests) stream.write(encode(`${scope}.ServerReflectionRequest`, request));
    stream.end();
    // biome-ignore lint/suspicious/noExplicitAny: decoded messages, read by the test
    const answers: any[] = [];
    for await (const bytes of stream) answers.push(decode(`${scope}.ServerReflectionResponse`, bytes));
    const services = answers[0].list_services_response.service.map(({ name }: { name: string }) => name);
    assert.deepEqual(services, [
      "grpc.health.v1.Health",
      "grpc.reflection.v1.ServerReflection",
      "grpc.reflection.v1alpha.ServerReflection",
      "inference.GRPCInferenceService",
    ]);
    assert.equal(answers[1].file_descriptor_response.file_descriptor_proto.length, 2);
    assert.equal(answers[2].file_descriptor_response.file_descriptor_proto.length, 1);
    assert.deepEqual(answers[3].error_response, { error_code: 5, error_message: "Symbol not found: nope" });
    assert.equal(answers[4].error_response.error_code, 5);
  });
}
