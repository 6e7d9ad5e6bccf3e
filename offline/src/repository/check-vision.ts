/** Checks models of the backends `image` and `retrieval`: valid parameters, existing targets. */
import { existsSync } from "node:fs";
import process from "node:process";
import { readImageSettings } from "@nereid/images/image-settings";
import { readRetrievalSettings } from "@nereid/retrieval/backend/retrieval-settings";
import { expectStoreAddress, resolveAddress } from "@nereid/retrieval/stores/open-store";
import type { ModelConfig } from "@nereid/server/core/model-config";
import type { ExaminedModel } from "./examined-model.ts";

export function checkImage(model: ExaminedModel, config: ModelConfig, versionFolder: string): Promise<void> {
  try {
    readImageSettings({ config, modelFolder: model.path, versionFolder });
  } catch (error) {
    model.addServerError(error);
  }
  return Promise.resolve();
}

export function checkRetrieval(model: ExaminedModel, config: ModelConfig): Promise<void> {
  try {
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
  return Promise.resolve();
}
