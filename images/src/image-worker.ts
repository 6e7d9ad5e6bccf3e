/** The program of the image decoding process. Started by image-process.ts. */
import { serveWorkerCalls } from "@nereid/server/worker-process/serve-calls";
import { loadDecoder } from "./decode-image.ts";
import type { ImageData } from "./messages.ts";
import { PixelBudget } from "./pixel-budget.ts";
import { processJob } from "./process-job.ts";
import { parseProcessor } from "./processor-config.ts";

await serveWorkerCalls(async (given) => {
  const { fields, where, pixelType, maxPixels, maxPatches } = given as ImageData;
  const settings = { processing: parseProcessor(new Map(fields), where), pixelType, maxPixels, maxPatches };
  // Two of the largest images concurrently, so that small ones never wait long behind them.
  const tools = { decode: await loadDecoder(), budget: new PixelBudget(2 * maxPixels) };
  return (images) => processJob(settings, tools, images as readonly Uint8Array[]);
});
