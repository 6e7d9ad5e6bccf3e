/** Routes of OpenAI's batches. Source: OpenAI's API reference, "Batch". */
import { ApiError } from "../../api/api-error.ts";
import { type ApiReply, type ApiRoute, actionRoute, getRoute, postRoute, type RouteCall } from "../../api/route.ts";
import { jsonReply } from "../../http/http-reply.ts";
import { expectStore } from "../files/files-api.ts";
import { pageOf } from "../page.ts";
import { ownerOf } from "../responses/responses-context.ts";
import { BATCH_REQUEST, type Batch } from "./batch.ts";
import type { BatchQueue } from "./batch-queue.ts";

const ONE = "/v1/batches/{id}";
const LIMITS = { max: 100, usual: 20 };

/** `open` is undefined where the server has no folder for files. */
export function batchesRoutes(open: Promise<BatchQueue> | undefined): readonly ApiRoute[] {
  const withQueue =
    (handle: (queue: BatchQueue, route: RouteCall) => Promise<Batch>) =>
    async (route: RouteCall): Promise<ApiReply> =>
      jsonReply(await handle(await expectStore(open), route));
  return [
    postRoute("/v1/batches", "inference", "Create a batch", BATCH_REQUEST, async (body, route) => {
      const queue = await expectStore(open);
      return jsonReply(await queue.create(ownerOf(route), body));
    }),
    getRoute("/v1/batches", "inference", "List the batches", async (route) => {
      const queue = await expectStore(open);
      const query = new URLSearchParams(route.call.query);
      return jsonReply(
        pageOf(
          queue.list(ownerOf(route)).map((batch) => ({ ...batch })),
          query,
          LIMITS,
        ),
      );
    }),
    getRoute(
      ONE,
      "inference",
      "Describe a batch",
      withQueue(async (queue, route) => expectBatch(queue.find(ownerOf(route), idOf(route)), route)),
    ),
    actionRoute(
      `${ONE}/cancel`,
      "inference",
      "Cancel a batch",
      withQueue(async (queue, route) => expectBatch(await queue.cancel(ownerOf(route), idOf(route)), route)),
    ),
  ];
}

function idOf({ params }: RouteCall): string {
  return params.get("id") ?? "";
}

function expectBatch(batch: Batch | undefined, route: RouteCall): Batch {
  if (batch !== undefined) return batch;
  const message = `No batch found with id '${idOf(route)}'.`;
  throw new ApiError({ status: 404, type: "invalid_request_error", code: null, param: "batch_id", message });
}
