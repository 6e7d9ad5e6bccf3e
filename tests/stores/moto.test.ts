/**
 * Models in S3, as moto plays it: a server that nobody here has written and that checks every signature. Skipped where its
 * packages cannot be had.
 */
import assert from "node:assert/strict";
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { liveFolders, temporaryFolder } from "../../object-stores/src/open-stores.test-support.ts";
import { pythonVenv } from "../python-venv.ts";
import { EXAMPLES } from "../support/model-repository.ts";
import { SIMPLE_REQUEST } from "../support/probe-server.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const SCRIPT = fileURLToPath(new URL("moto-server.py", import.meta.url));
const venv = await pythonVenv(["moto[server,s3,iam]>=5,<6"]);

interface Moto {
  readonly endpoint: string;
  readonly keyId: string;
  readonly secret: string;
}

/** Objects of the bucket change line by line. */
class MotoProcess {
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #lines: AsyncIterator<string>;

  constructor(python: string) {
    this.#child = spawn(python, [SCRIPT]);
    this.#child.stderr.resume();
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
  }

  async ready(): Promise<Moto> {
    return JSON.parse(await this.#line()) as Moto;
  }

  async put(objects: Readonly<Record<string, string | Buffer | undefined>>): Promise<void> {
    const entries = Object.entries(objects).map(([name, content]) => [
      name,
      content === undefined ? null : Buffer.from(content).toString("base64"),
    ]);
    this.#child.stdin.write(`${JSON.stringify(Object.fromEntries(entries))}\n`);
    assert.equal(await this.#line(), "applied");
  }

  stop(): void {
    this.#child.kill();
  }

  async #line(): Promise<string> {
    const { value, done } = await this.#lines.next();
    assert.ok(done !== true, "the server of moto has ended");
    return value;
  }
}

const MODEL = readFileSync(`${EXAMPLES}/simple/1/model.onnx`);
const CONFIG = readFileSync(`${EXAMPLES}/simple/config.pbtxt`);

describe("models in S3 as moto plays it", { skip: venv.reason }, () => {
  let moto: MotoProcess;
  let store: Moto;
  before(async () => {
    moto = new MotoProcess(venv.python ?? "");
    store = await moto.ready();
    await moto.put({ "some/path/simple/config.pbtxt": CONFIG, "some/path/simple/1/model.onnx": MODEL });
  });
  after(() => moto.stop());

  const start = (cache: string, flags: readonly string[], secret = store.secret): Promise<ServerProcess> =>
    startServerProcess({
      repositories: [`s3://${store.endpoint}/models/some/path`],
      flags,
      env: { AWS_ACCESS_KEY_ID: store.keyId, AWS_SECRET_ACCESS_KEY: secret, NEREID_MODEL_CACHE: cache },
    });

  test("a model is served from the bucket, reloaded, unloaded and removed from the disk", async (t) => {
    const cache = temporaryFolder(t);
    const server = await start(cache, ["--model-control-mode=explicit", "--load-model=simple"]);
    t.after(() => server.kill());
    const post = (path: string, body = ""): Promise<Response> =>
      fetch(`${server.baseUrl}${path}`, { method: "POST", body });
    const infer = async (): Promise<number> => (await post("/v2/models/simple/infer", SIMPLE_REQUEST)).status;
    assert.equal(await infer(), 200);
    const folders = liveFolders(cache);
    assert.equal(folders.length, 1);
    await moto.put({
      "some/path/simple/config.pbtxt": `${CONFIG}\nparameters { key: "a" value { string_value: "b" } }`,
    });
    assert.equal((await post("/v2/repository/models/simple/load")).status, 200);
    assert.equal(await infer(), 200);
    assert.notDeepEqual(liveFolders(cache), folders);
    const { parameters } = (await (await fetch(`${server.baseUrl}/v2/models/simple/config`)).json()) as {
      parameters: unknown;
    };
    assert.deepEqual(parameters, { a: { string_value: "b" } });
    assert.equal((await post("/v2/repository/models/simple/unload")).status, 200);
    await server.stop();
    assert.deepEqual(liveFolders(cache), []);
    assert.match(server.log(), /fetching 's3:\/\/http:\/\/127.*\/models\/some\/path\/simple': 2 files/);
    assert.doesNotMatch(server.log(), new RegExp(store.secret.replaceAll(/[^\w]/g, "\\$&")));
  });

  test("poll mode sees what comes and what goes in the bucket", async (t) => {
    const cache = temporaryFolder(t);
    const server = await start(cache, ["--model-control-mode=poll", "--repository-poll-secs=1"]);
    t.after(() => server.kill());
    const until = async (status: number): Promise<void> => {
      for (let look = 0; look < 100; look += 1) {
        const { status: found } = await fetch(`${server.baseUrl}/v2/models/second/ready`);
        if (found === status) return;
        await new Promise((resolve) => setTimeout(resolve, 200));
      }
      assert.fail(`the model 'second' never answers ${status}: ${server.log()}`);
    };
    const config = CONFIG.toString().replace('"simple"', '"second"');
    await moto.put({ "some/path/second/config.pbtxt": config, "some/path/second/1/model.onnx": MODEL });
    await until(200);
    await moto.put({ "some/path/second/config.pbtxt": undefined, "some/path/second/1/model.onnx": undefined });
    await until(400);
    await server.stop();
  });

  test("a wrong secret ends the start with the store's reason", async (t) => {
    const starting = start(temporaryFolder(t), [], "not the secret");
    await assert.rejects(starting, /creating server: Internal - http:\/\/127.*answers 403: SignatureDoesNotMatch/);
  });
});
