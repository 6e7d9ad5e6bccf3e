/**
 * A package with ONNX Runtime's library for one platform, taken from onnxruntime-node, whose own install script would
 * download providers for CUDA. Carries nothing else of it.
 */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { onnxRuntimeManifest, type Platform, type WorkspaceManifest } from "./published-manifest.ts";
import { copyInto, emptyFolder, readJson, writeJson } from "./stage-files.ts";

const LIBRARY = "libonnxruntime.so.1";

export function stageOnnxRuntime(root: string, platform: Platform, stage: string): void {
  const home = dirname(createRequire(join(root, "package.json")).resolve("onnxruntime-node/package.json"));
  const { version }: { readonly version: string } = readJson(join(home, "package.json"));
  const notices = join(root, "packaging", `onnxruntime-${version}`);
  if (!existsSync(notices)) {
    throw new Error(
      `${notices}: expected LICENSE and ThirdPartyNotices.txt of the release; take them from its Python wheel`,
    );
  }
  emptyFolder(stage);
  copyInto(stage, join(home, "bin", "napi-v6", platform.os, platform.cpu), [LIBRARY]);
  copyInto(stage, notices, ["LICENSE", "ThirdPartyNotices.txt"]);
  const server = readJson<WorkspaceManifest>(join(root, "server", "package.json"));
  writeJson(join(stage, "package.json"), onnxRuntimeManifest(platform, version, server));
}
