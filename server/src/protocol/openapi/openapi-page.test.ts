import assert from "node:assert/strict";
import { test } from "node:test";
import { openApiDocument } from "./openapi-document.ts";
import { openApiPage, typeText } from "./openapi-page.ts";

test("typeText() says the type of a member in one line", () => {
  const cases: readonly (readonly [schema: Readonly<Record<string, unknown>>, text: string])[] = [
    [{ type: "integer", minimum: 0, maximum: 20 }, "integer ≥ 0, ≤ 20"],
    [{ type: "integer", minimum: 1, maximum: Number.MAX_SAFE_INTEGER }, "integer ≥ 1"],
    [{ type: "array", items: { type: "string" } }, "string[]"],
    [{ anyOf: [{ type: "string" }, { type: "array", items: {} }] }, "string | any[]"],
    [{ type: "string", enum: ["a", "b"] }, '"a" | "b"'],
    [{}, "any"],
  ];
  for (const [schema, text] of cases) assert.equal(typeText(schema), text);
});

test("openApiPage() shows members, and text of routes as text", () => {
  const body = { type: "object", properties: { model: { type: "string" } }, required: ["model"] };
  const routes = [{ method: "POST", path: "/v1/{rest*}", summary: "<b> & more", body }];
  const groups = [{ name: "One & two", description: "Both", routes }];
  const document = openApiDocument(groups, { version: "1", needsKey: false });
  const page = openApiPage(document, "openapi.json");
  assert.match(page, /<code>model<\/code><\/td><td>string<\/td><td class="text">required/);
  assert.match(page, /&lt;b&gt; &amp; more/);
  assert.match(page, /href="#one-two"/);
  assert.match(page, /<code>\/v1\/\{rest\}<\/code>/);
});

test("openApiDocument() and its page show the fields of a form", () => {
  const form = { type: "object", properties: { file: { type: "string" } }, required: ["file"] };
  const routes = [{ method: "POST", path: "/v1/files", summary: "Upload", body: undefined, form }];
  const document = openApiDocument([{ name: "a", description: "", routes }], { version: "1", needsKey: false });
  const body = { required: true, content: { "multipart/form-data": { schema: form } } };
  assert.deepEqual(document.paths["/v1/files"]?.post?.requestBody, body);
  assert.match(openApiPage(document, "x"), /<code>file<\/code><\/td><td>string<\/td><td class="text">required/);
});

test("openApiDocument() keeps the first of two groups with the same route", () => {
  const route = (summary: string) => ({ method: "GET", path: "/v1/models", summary, body: undefined });
  const groups = ["a", "b"].map((name) => ({ name, description: "", routes: [route(name)] }));
  const { paths, security } = openApiDocument(groups, { version: "1", needsKey: false });
  assert.equal(paths["/v1/models"]?.get?.summary, "a");
  assert.equal(security, undefined);
});
