/**
 * The OpenAPI document of the server, from the tables of routes that dispatch and validate. Pure.
 * Source: OpenAPI Specification 3.1.1.
 */

export type JsonValue = Readonly<Record<string, unknown>>;

/** The part of a route that the document shows. */
export interface DocumentedRoute {
  readonly method: string;
  /** `{model}` is one segment, `{model*}` the rest. */
  readonly path: string;
  readonly summary: string;
  /** JSON Schema of the body; undefined: no body. */
  readonly body: JsonValue | undefined;
  /** JSON Schema of the fields of a form, in place of a body; absent: none. */
  readonly form?: JsonValue | undefined;
}

type BodyType = "application/json" | "multipart/form-data";

/** Routes of one protocol, under a heading of their own. */
export interface RouteGroup {
  readonly name: string;
  readonly description: string;
  readonly routes: readonly DocumentedRoute[];
}

export interface OpenApiDocument {
  readonly openapi: "3.1.1";
  readonly info: { readonly title: string; readonly version: string; readonly description: string };
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  /** By path, then by method in lower case. */
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: JsonValue;
  readonly security?: readonly JsonValue[];
}

export interface Operation {
  readonly tags: readonly string[];
  readonly operationId: string;
  readonly summary: string;
  readonly parameters?: readonly JsonValue[];
  readonly requestBody?: {
    readonly required: boolean;
    readonly content: Readonly<Partial<Record<BodyType, { readonly schema: JsonValue }>>>;
  };
  readonly responses: JsonValue;
}

const PART = /\{(\w+)\*?\}/g;

/** A route that two groups have stands in the first: that one answers. */
export function openApiDocument(
  groups: readonly RouteGroup[],
  { version, needsKey }: { readonly version: string; readonly needsKey: boolean },
): OpenApiDocument {
  const paths: Record<string, Record<string, Operation>> = {};
  for (const { name, routes } of groups) {
    for (const route of routes) {
      const path = route.path.replaceAll(PART, "{$1}");
      const operations = paths[path] ?? {};
      operations[route.method.toLowerCase()] ??= operationOf(route, name);
      paths[path] = operations;
    }
  }
  return {
    openapi: "3.1.1",
    info: { title: "Nereid", version, description: "Inference server: OpenAI, Anthropic, Ollama and KServe V2" },
    tags: groups.map(({ name, description }) => ({ name, description })),
    paths,
    components: {
      securitySchemes: {
        bearer: { type: "http", scheme: "bearer" },
        header: { type: "apiKey", in: "header", name: "x-api-key" },
      },
    },
    ...(needsKey ? { security: [{ bearer: [] }, { header: [] }] } : {}),
  };
}

function operationOf({ method, path, summary, body, form }: DocumentedRoute, tag: string): Operation {
  const schema = body ?? form;
  const type: BodyType = body === undefined ? "multipart/form-data" : "application/json";
  const words = path.split("/").map((word) => word.replaceAll(/\W/g, "_"));
  const names = [...path.matchAll(PART)].map(([, name]) => name);
  const parameters = names.map((name) => ({ name, in: "path", required: true, schema: { type: "string" } }));
  return {
    tags: [tag],
    operationId: [method.toLowerCase(), ...words.filter((word) => word !== "")].join("_"),
    summary,
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(schema === undefined ? {} : { requestBody: { required: true, content: { [type]: { schema } } } }),
    responses: { 200: { description: "The answer" }, default: { description: "An error in the protocol's form" } },
  };
}
