/** Repository agents that are shared libraries: one of the tests' own, in a process, in the path of model loads. */
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, describe, test } from "node:test";
import { compileLibrary, NO_COMPILER } from "../../../../tests/fakes/cpp-library.ts";
import { createTestRepository, identityConfig } from "../../../../tests/fakes/model-repository.ts";
import { until } from "../../../../tests/fakes/python-models.ts";
import { DEFAULT_LOG_SETTINGS, ServerLog } from "../../observe/log.ts";
import { AgentFinder } from "../../repository/agents/agent-finder.ts";
import { NativeAgent } from "./native-agent.ts";

describe("repository agents of libraries", { skip: NO_COMPILER }, () => {
  const root = mkdtempSync(join(tmpdir(), "nereid-native-agent-"));
  after(() => rmSync(root, { recursive: true, force: true }));
  const placeLibrary = NO_COMPILER === false ? compileLibrary("cpp-agent/test_agent.cc") : () => undefined;
  const lines: string[] = [];
  const sink = { out: (text: string) => void lines.push(text), err: (text: string) => void lines.push(text) };
  const log = new ServerLog(DEFAULT_LOG_SETTINGS, { sink });
  const finder = new AgentFinder(root, (name, path) => new NativeAgent({ name, path, environment: process.env, log }));
  placeLibrary(join(root, "test", "libtritonrepoagent_test.so"));

  const notes = (name: string): string => join(root, `${name}.txt`);
  const notesOf = (name: string): string[] => readFileSync(notes(name), "utf8").trim().split("\n");
  const config = (name: string, mode: string): string => {
    const parameters = [`{ key: "notes" value: "${notes(name)}" }`, `{ key: "mode" value: "${mode}" }`];
    const agent = `{ name: "test" parameters [ ${parameters.join(", ")} ] }`;
    return identityConfig(`model_repository_agents { agents [ ${agent} ] }`);
  };
  const repositoryOf = (files: Readonly<Record<string, string>>) =>
    createTestRepository(files, [], undefined, { findAgent: (name) => finder.find(name) });
  const model = (name: string, mode: string) => ({
    [`${name}/config.pbtxt`]: config(name, mode),
    [`${name}/1/.keep`]: "",
  });

  test("an agent hears of each event of a model, between its initialization and its end", async () => {
    await using repository = repositoryOf(model("good", "keep"));
    await repository.manager.load("good", {});
    assert.deepEqual(notesOf("good"), ["initialize", "load", "loadComplete"]);
    await repository.manager.unload("good", false);
    await until(() => notesOf("good").length === 6);
    assert.deepEqual(notesOf("good").slice(3), ["unload", "unloadComplete", "finalize"]);
    assert.match(lines.join(""), /test_agent\.cc:\d+\] "configured"/);
    assert.deepEqual(
      finder.used().map(({ name, path }) => [name, path]),
      [["test", join(root, "test", "libtritonrepoagent_test.so")]],
    );
  });

  test("an agent refuses a model, with its words in the log", async () => {
    await using repository = repositoryOf(model("refused", "refuse"));
    await assert.rejects(repository.manager.load("refused", {}), /failed to load 'refused', failed to poll/);
    assert.match(repository.errors.join(""), /no licence for this model/);
    assert.deepEqual(notesOf("refused"), ["initialize", "load", "loadFail", "finalize"]);
  });

  test("an agent serves a model from a temporary folder, which goes with the model", async () => {
    await using repository = repositoryOf(model("moved", "move"));
    await repository.manager.load("moved", {});
    assert.equal(repository.registry.lookUp("moved", "").version, "5");
    const folder = notesOf("moved")[2] ?? "";
    assert.ok(existsSync(folder));
    await repository.manager.unload("moved", false);
    await until(() => !existsSync(folder));
  });

  test("the crash of an agent costs its load, and the next load has a new process", async () => {
    await using repository = repositoryOf({ ...model("crashing", "crash"), ...model("after", "keep") });
    await assert.rejects(repository.manager.load("crashing", {}), /failed to load 'crashing', failed to poll/);
    assert.match(repository.errors.join(""), /the process of repository agent 'test' ended: .*SIGABRT/);
    await repository.manager.load("after", {});
    assert.equal(repository.registry.ready("after").length, 1);
  });

  test("a library without the agent's function is refused by its name", async () => {
    const path = join(root, "hollow.so");
    writeFileSync(path, "no library");
    const hollow = new NativeAgent({ name: "hollow", path, environment: process.env, log });
    const asked = hollow.load({ folder: root, parameters: {}, configJson: "" });
    await assert.rejects(asked, /unable to load shared library: .*hollow\.so/);
  });
});
