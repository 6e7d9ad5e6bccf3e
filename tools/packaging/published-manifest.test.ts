import assert from "node:assert/strict";
import { test } from "node:test";
import {
  onnxRuntimeManifest,
  publishedManifest,
  publishedServerManifest,
  publishedUmbrellaManifest,
  type WorkspaceManifest,
} from "./published-manifest.ts";

const SERVER: WorkspaceManifest = {
  name: "@nereid/server",
  version: "4.5.6",
  license: "Apache-2.0",
  files: ["dist"],
  dependencies: { koffi: "3.0.1", protobufjs: "8.0.0" },
  optionalDependencies: { "@node-llama-cpp/linux-x64": "3.0.0" },
  peerDependencies: { "@redis/client": "6.0.0" },
  peerDependenciesMeta: { "@redis/client": { optional: true } },
};
const RUNTIMES = { "@nereid/onnxruntime-linux-x64": "4.5.6", "@nereid/onnxruntime-linux-arm64": "4.5.6" };

test("`publishedManifest()` drops sources and development dependencies, adds notices, keeps the rest", () => {
  const manifest: WorkspaceManifest = {
    name: "@nereid/wire",
    version: "1.0.0",
    files: ["dist"],
    exports: { ".": { "nereid-source": "./src/index.ts", types: "./dist/index.d.ts", default: "./dist/index.js" } },
    devDependencies: { tsx: "4.0.0" },
  };
  assert.deepEqual(publishedManifest(manifest), {
    name: "@nereid/wire",
    version: "1.0.0",
    files: ["dist", "LICENSE", "NOTICE"],
    exports: { ".": { types: "./dist/index.d.ts", default: "./dist/index.js" } },
  });
});

test("`publishedServerManifest()` replaces koffi by its native parts and has ONNX Runtime as an optional peer", () => {
  const { dependencies, optionalDependencies, peerDependencies, peerDependenciesMeta } =
    publishedServerManifest(SERVER);
  assert.deepEqual(dependencies, { protobufjs: "8.0.0" });
  assert.deepEqual(optionalDependencies, {
    "@node-llama-cpp/linux-x64": "3.0.0",
    "@koromix/koffi-linux-x64": "3.0.1",
    "@koromix/koffi-linux-arm64": "3.0.1",
  });
  assert.deepEqual(peerDependencies, { "@redis/client": "6.0.0", ...RUNTIMES });
  assert.deepEqual(peerDependenciesMeta, {
    "@redis/client": { optional: true },
    "@nereid/onnxruntime-linux-x64": { optional: true },
    "@nereid/onnxruntime-linux-arm64": { optional: true },
  });
});

test("`publishedManifest()` keeps plain files and ships no types behind a pattern", () => {
  const targets = { "nereid-source": "./src/*.ts", types: "./dist/*.d.ts", default: "./dist/*.js" };
  const { exports } = publishedManifest({ ...SERVER, exports: { "./package.json": "./package.json", "./*": targets } });
  assert.deepEqual(exports, { "./package.json": "./package.json", "./*": { default: "./dist/*.js" } });
});

test("`publishedUmbrellaManifest()` adds ONNX Runtime of each platform as an optional dependency", () => {
  const { optionalDependencies } = publishedUmbrellaManifest({ name: "nereid", version: "4.5.6" });
  assert.deepEqual(optionalDependencies, RUNTIMES);
});

test("`publishedServerManifest()` refuses a server without koffi", () => {
  assert.throws(() => publishedServerManifest({ ...SERVER, dependencies: {} }), /expected koffi/);
});

test("`onnxRuntimeManifest()` limits a package to its platform", () => {
  const manifest = onnxRuntimeManifest({ os: "linux", cpu: "arm64" }, "1.2.3", SERVER);
  assert.deepEqual(manifest, {
    name: "@nereid/onnxruntime-linux-arm64",
    version: "4.5.6",
    description: "ONNX Runtime 1.2.3 of linux-arm64 for @nereid/server",
    license: "MIT",
    os: ["linux"],
    cpu: ["arm64"],
    libc: ["glibc"],
    preferUnplugged: true,
    files: ["libonnxruntime.so.1", "LICENSE", "ThirdPartyNotices.txt"],
  });
});
