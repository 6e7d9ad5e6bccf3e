/** Checks models of the backends `image` and `retrieval`: valid parameters, existing targets. */
import { existsSync } from "node:fs";
import process from "node:process";
import type { ModelConfig } from "@nereid/server/core/model-config";
import { requirePackage } from "@nereid/server/packages/optional-package";
import type { ExaminedModel } from "./examined-model.ts";

export async function checkImage(model: ExaminedModel, config: ModelConfig, versionFolder: string): Promise<void> {
  try {
    const load = () => import("@nereid/images/image-settings");
    const { readImageSettings } = await requirePackage("@nereid/images", 'the backend "image"', load);
    readImageSettings({ config, modelFolder: model.path, versionFolder });
  } catch (error) {
    model.addServerError(error);
  }
}

export async function checkRetrieval(model: ExaminedModel, config: ModelConfig): Promise<void> {
  try {
    const load = async () => ({
      ...(await import("@nereid/retrieval/backend/retrieval-settings")),
      ...(await import("@nereid/retrieval/stores/open-store")),
    });
    const retrieval = await requirePackage("@nereid/retrieval", 'the backend "retrieval"', load);
    const { expectStoreAddress, readRetrievalSettings, resolveAddress } = retrieval;
    const { store, collection } = readRetrievalSettings(config);
    const address = resolveAddress(store, { folder: model.path, env: process.env });
    expectStoreAddress(address);
    const folder = /^(?:memory|pglite):(.+)$/.exec(address)?.[1];
    if (folder !== undefined && !existsSync(folder)) {
      const fix = `Fill it: nereid index --model ENCODER --input RECORDS --store ${address} --collection ${collection}`;
      model.addAtParameter("warning", "store", `the store ${address} is empty: look-ups will fail`, fix);
    }
  } catch (error) {
    model.addServerError(error);
  }
}
