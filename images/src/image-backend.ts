/**
 * The backend `image`: images as files, base64 or URLs to the pixel values of a vision model. Source:
 * `preprocessor_config.json` of transformers' image processors.
 */
import type { Backend, BackendModel, ModelSource } from "@nereid/server/backend/backend";
import { ImageInstance } from "./image-instance.ts";
import { ImageProcess } from "./image-process.ts";
import { readImageSettings } from "./image-settings.ts";

export function createBackend(): Backend {
  return { name: "image", load, close: () => Promise.resolve() };
}

function load(source: ModelSource): Promise<BackendModel> {
  const settings = readImageSettings(source);
  const { fields, where, pixels, maxPixels, maxPatches } = settings;
  return Promise.resolve({
    async createInstance({ name }) {
      const decoder = new ImageProcess({ fields, where, pixelType: pixels.type, maxPixels, maxPatches }, source.log);
      await decoder.start();
      return new ImageInstance(name, settings, decoder);
    },
    close: () => Promise.resolve(),
  });
}
