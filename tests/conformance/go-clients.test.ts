/** Clients on gRPC for Go: grpcurl, which learns everything by reflection, and the health probe of Kubernetes. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { promisify } from "node:util";
import { TEST_CERT, TEST_KEY } from "../../server/src/protocol/grpc/test-certificate.test-support.ts";
import { goTool } from "../support/go-tool.ts";
import { createModelRepository, EXAMPLES } from "../support/model-repository.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const run = promisify(execFile);
const grpcurl = goTool({ name: "grpcurl", module: "github.com/fullstorydev/grpcurl/cmd/grpcurl", isLarge: true });
const probe = goTool({
  name: "grpc-health-probe",
  alias: "grpc_health_probe",
  module: "github.com/grpc-ecosystem/grpc-health-probe",
});
const SIXTEEN = Array.from({ length: 16 }, (_, i) => i);

describe("clients on gRPC for Go", { timeout: 600_000 }, () => {
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
});

/** Codes with which the probe ends. */
const [SERVING, NO_CONNECTION, NOT_SERVING] = [0, 2, 4];

async function probeEnd(port: number, ...flags: readonly string[]): Promise<{ code: number; text: string }> {
  const args = [`-addr=127.0.0.1:${port}`, "-connect-timeout=10s", "-rpc-timeout=10s", ...flags];
  try {
    const { stderr } = await run(probe.program ?? "", args);
    return { code: SERVING, text: stderr };
  } catch (error) {
    const { code, stderr } = error as { code: number; stderr: string };
    return { code, text: stderr };
  }
}

describe("grpc_health_probe", { skip: probe.reason ?? false, timeout: 600_000 }, () => {
  const folder = mkdtempSync(join(tmpdir(), "nereid-probe-"));
  const [cert, key] = [join(folder, "cert.pem"), join(folder, "key.pem")];
  writeFileSync(cert, TEST_CERT);
  writeFileSync(key, TEST_KEY);
  const model = ["--model-control-mode=explicit", "--load-model=simple"];
  const tls = ["--grpc-use-ssl=true", `--grpc-server-cert=${cert}`, `--grpc-server-key=${key}`];
  const mutual = ["--grpc-use-ssl-mutual=true", `--grpc-root-cert=${cert}`];
  const trust = ["-tls", `-tls-ca-cert=${cert}`];
  const own = [`-tls-client-cert=${cert}`, `-tls-client-key=${key}`];

  for (const { name, server, probes } of [
    {
      name: "without TLS",
      server: [],
      probes: [
        { flags: [], code: SERVING },
        { flags: ["-service=simple"], code: SERVING },
        { flags: ["-gzip"], code: SERVING },
        { flags: trust, code: NO_CONNECTION },
      ],
    },
    {
      name: "with TLS",
      server: tls,
      probes: [
        { flags: trust, code: SERVING },
        { flags: [...trust, "-service=simple"], code: SERVING },
        { flags: [...trust, "-tls-server-name=elsewhere"], code: NO_CONNECTION },
        { flags: ["-tls"], code: NO_CONNECTION },
        { flags: [], code: NO_CONNECTION },
      ],
    },
    {
      name: "with mutual TLS",
      server: [...tls, ...mutual],
      probes: [
        { flags: [...trust, ...own], code: SERVING },
        { flags: trust, code: NO_CONNECTION },
      ],
    },
    {
      name: "on the shared port",
      server: ["--one-port=true"],
      probes: [{ flags: ["-service=simple"], code: SERVING }],
    },
  ]) {
    it(`sees what is so ${name}`, async () => {
      const running = await startServerProcess({ repositories: [EXAMPLES], flags: [...model, ...server] });
      try {
        const port = server.includes("--one-port=true") ? running.http : running.grpc;
        for (const { flags, code } of probes) {
          // It tries to connect again and again: to see that it cannot takes as long as it is given.
          const patience = code === NO_CONNECTION ? ["-connect-timeout=1s"] : [];
          const end = await probeEnd(port, ...flags, ...patience);
          assert.equal(end.code, code, `${flags.join(" ")}: ${end.text}`);
        }
        await running.stop();
      } finally {
        await running.kill();
      }
    });
  }

  it("sees that a model has not loaded", async () => {
    await using broken = await createModelRepository({ files: { "broken/config.pbtxt": 'backend: "nonesuch"' } });
    const flags = ["--exit-on-error=false"];
    const running = await startServerProcess({ repositories: [broken.path], flags, waitFor: "live" });
    try {
      assert.equal((await probeEnd(running.grpc)).code, NOT_SERVING);
      await running.stop();
    } finally {
      await running.kill();
    }
  });
});
