/** GET /openapi.json and /docs: the routes of this server, as a document and as a page. Source: OpenAPI Specification 3.1.1. */
import { JsonApi, type JsonApiParts } from "../api/json-api.ts";
import { type ApiRoute, getRoute } from "../api/route.ts";
import { bytesReply, jsonReply } from "../http/http-reply.ts";
import { V2_ROUTES } from "../http/routes/described-routes.ts";
import { openApiDocument, type RouteGroup } from "./openapi-document.ts";
import { openApiPage } from "./openapi-page.ts";

const DOCUMENT_PATH = "/openapi.json";
/** Nothing but its own style: no script, no request to anybody. */
const PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

export interface OpenApiParts extends Omit<JsonApiParts, "routes" | "prefix"> {
  readonly version: string;
  readonly groups: readonly RouteGroup[];
}

export function createOpenApiApi(parts: OpenApiParts): JsonApi {
  return new JsonApi({ ...parts, routes: openApiRoutes(parts) });
}

export function openApiRoutes({
  groups,
  version,
  keys,
}: Pick<OpenApiParts, "groups" | "version" | "keys">): readonly ApiRoute[] {
  const own = { name: "Documentation", description: "This document and this page" };
  const routes: readonly ApiRoute[] = [
    getRoute(DOCUMENT_PATH, "metadata", "This document", async () => jsonReply(document())),
    getRoute("/docs", "metadata", "A page that shows it", async () =>
      bytesReply(
        "text/html; charset=utf-8",
        [Buffer.from(openApiPage(document(), "openapi.json"))],
        ["content-security-policy", PAGE_POLICY],
      ),
    ),
  ];
  const document = (): ReturnType<typeof openApiDocument> =>
    openApiDocument([...groups, { ...own, routes }], { version, needsKey: keys !== undefined });
  return routes;
}

/** Tensors may follow the JSON in binary, and `generate` takes the names of a model's inputs. */
export const V2_GROUP: RouteGroup = {
  name: "KServe V2",
  description: "Triton's HTTP API: tensors, generation, repository, statistics",
  routes: V2_ROUTES.map(({ hasBody, ...route }) => ({ ...route, body: hasBody ? { type: "object" } : undefined })),
};
