/** The program of the process that decodes pictures. Started by picture-process.ts. */
import { serveHelper } from "@nereid/server/worker-process/serve-calls";
import { loadDecoder } from "./decode-picture.ts";
import type { PictureData } from "./messages.ts";
import { PixelBudget } from "./pixel-budget.ts";
import { processJob } from "./process-job.ts";
import { parseProcessor } from "./processor-config.ts";

await serveHelper(async (given) => {
  const { fields, where, pixelType, maxPixels, maxPatches } = given as PictureData;
  const settings = { processing: parseProcessor(new Map(fields), where), pixelType, maxPixels, maxPatches };
  // Of the largest pictures two at once: small ones never wait long behind them.
  const tools = { decode: await loadDecoder(), budget: new PixelBudget(2 * maxPixels) };
  return (pictures) => processJob(settings, tools, pictures as readonly Uint8Array[]);
});
