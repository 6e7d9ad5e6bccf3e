/** The package `nereid`: no code of its own but its two programs, and every other package as a dependency. */
import { join } from "node:path";
import { publishedUmbrellaManifest, type WorkspaceManifest } from "./published-manifest.ts";
import { copyInto, emptyFolder, filesBelow, readJson, WORKSPACE_NOTICES, writeJson } from "./stage-files.ts";

export function stageUmbrella(root: string, stage: string): void {
  const folder = join(root, "nereid");
  emptyFolder(stage);
  copyInto(
    stage,
    folder,
    filesBelow(join(folder, "bin")).map((file) => join("bin", file)),
  );
  copyInto(stage, root, WORKSPACE_NOTICES);
  writeJson(
    join(stage, "package.json"),
    publishedUmbrellaManifest(readJson<WorkspaceManifest>(join(folder, "package.json"))),
  );
}
