import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { fileDescriptors } from "../wire/src/gen/descriptors.ts";
import { generate } from "./generate-schema.ts";

test("generate() gives the committed modules, so that schema and .proto files cannot drift apart", () => {
  const modules = generate();
  assert.deepEqual([...modules.keys()], ["schema.ts", "descriptors.ts"]);
  for (const [name, text] of modules) {
    assert.equal(readFileSync(new URL(`../wire/src/gen/${name}`, import.meta.url), "utf8"), text, name);
  }
});

test("generate() describes every .proto file for reflection", () => {
  assert.deepEqual(Object.keys(fileDescriptors), [
    "grpc/health/v1/health.proto",
    "grpc/reflection/v1/reflection.proto",
    "grpc/reflection/v1alpha/reflection.proto",
    "grpc_service.proto",
    "model_config.proto",
  ]);
});
