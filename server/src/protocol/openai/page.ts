/** Pages of lists. Source: OpenAI's API reference, "List files", "List batches". */
import { invalidRequest } from "../api/api-error.ts";
import { integer, type JsonObject } from "../api/schema.ts";

/** @throws ApiError for a limit that is no such number, or an `after` that is not in the list */
export function pageOf(
  items: readonly JsonObject[],
  query: URLSearchParams,
  limits: { readonly max: number; readonly usual: number },
): JsonObject {
  const text = query.get("limit");
  const limit =
    text === null ? limits.usual : integer(1, limits.max).read(text === "" ? Number.NaN : Number(text), "limit");
  const after = query.get("after");
  const start = after === null ? 0 : items.findIndex(({ id }) => id === after) + 1;
  if (after !== null && start === 0) {
    throw invalidRequest("after", "invalid_value", `Invalid 'after': no item with id '${after}'.`);
  }
  const data = items.slice(start, start + limit);
  return {
    object: "list",
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: start + limit < items.length,
  };
}
