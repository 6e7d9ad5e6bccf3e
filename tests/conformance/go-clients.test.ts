/** Clients on gRPC for Go: grpcurl, which learns everything by reflection, and the health probe of Kubernetes. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { after, before, describe, it } from "node:test";
import { promisify } from "node:util";
import { goTool } from "../support/go-tool.ts";
import { EXAMPLES } from "../support/model-repository.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const run = promisify(execFile);
const grpcurl = goTool({ name: "grpcurl", module: "github.com/fullstorydev/grpcurl/cmd/grpcurl", isLarge: true });
const probe = goTool({ name: "grpc-health-probe", module: "github.com/grpc-ecosystem/grpc-health-probe" });
const SIXTEEN = Array.from({ length: 16 }, (_, i) => i);

describe("clients on gRPC for Go", { timeout: 120_000 }, () => {
  let server: ServerProcess;
  before(async () => {
    const flags = ["--model-control-mode=explicit", "--load-model=simple"];
    server = await startServerProcess({ repositories: [EXAMPLES], flags });
  });
  after(() => server.stop());

  const call = async (...args: readonly string[]): Promise<string> => {
    const method = args.at(-1) ?? "";
    const flags = args.slice(0, -1);
    const { stdout } = await run(grpcurl.program ?? "", ["-plaintext", ...flags, `127.0.0.1:${server.grpc}`, method]);
    return stdout;
  };

  it("grpcurl lists the services and describes a message", { skip: grpcurl.reason ?? false }, async () => {
    assert.match(await call("list"), /^grpc\.health\.v1\.Health$[\s\S]*^inference\.GRPCInferenceService$/m);
    const { stdout } = await run(grpcurl.program ?? "", [
      "-plaintext",
      `127.0.0.1:${server.grpc}`,
      "describe",
      "inference.ModelInferRequest",
    ]);
    assert.match(stdout, /repeated bytes raw_input_contents = 7;/);
  });

  it("grpcurl asks for health and metadata", { skip: grpcurl.reason ?? false }, async () => {
    assert.deepEqual(JSON.parse(await call("grpc.health.v1.Health/Check")), { status: "SERVING" });
    const answer = await call("-d", '{"name":"simple"}', "inference.GRPCInferenceService/ModelMetadata");
    assert.equal((JSON.parse(answer) as { name: string }).name, "simple");
  });

  it("grpcurl infers, and sees the status of an error", { skip: grpcurl.reason ?? false }, async () => {
    const tensor = (name: string): object => ({
      name,
      datatype: "INT32",
      shape: [1, 16],
      contents: { int_contents: SIXTEEN },
    });
    const request = (model: string): string =>
      JSON.stringify({ model_name: model, inputs: [tensor("INPUT0"), tensor("INPUT1")] });
    const answer = await call("-d", request("simple"), "inference.GRPCInferenceService/ModelInfer");
    const { rawOutputContents } = JSON.parse(answer) as { rawOutputContents: string[] };
    const sums = Buffer.from(rawOutputContents[0] ?? "", "base64");
    assert.equal(sums.readInt32LE(4 * 15), 30);
    await assert.rejects(call("-d", request("nope"), "inference.GRPCInferenceService/ModelInfer"), /Code: NotFound/);
  });

  it("grpc_health_probe finds the server serving", { skip: probe.reason ?? false }, async () => {
    const { stderr } = await run(probe.program ?? "", [`-addr=127.0.0.1:${server.grpc}`]);
    assert.match(stderr, /SERVING/);
  });
});
