/**
 * The OpenAPI document as a page without scripts: light or dark as the system of the reader, and as narrow as a phone. Pure.
 * Source: CSS Color 5, light-dark() and color-mix().
 */
import type { JsonValue, OpenApiDocument, Operation } from "./openapi-document.ts";

const STYLE = `
:root { color-scheme: light dark; --line: color-mix(in srgb, currentColor 18%, transparent); --soft: color-mix(in srgb, currentColor 62%, transparent); }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 60rem; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.6rem; margin: 0; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .2rem; }
p { margin: .2rem 0 .8rem; color: var(--soft); }
nav { display: flex; flex-wrap: wrap; gap: .3rem 1rem; margin: .6rem 0; }
details { border: 1px solid var(--line); border-radius: .5rem; margin: .4rem 0; }
summary { cursor: pointer; display: flex; flex-wrap: wrap; gap: .2rem .8rem; align-items: baseline; padding: .5rem .8rem; }
summary:focus-visible { outline: 2px solid Highlight; }
.method { font: 600 .8rem ui-monospace, monospace; min-width: 3.6rem; }
.get { color: light-dark(#05603a, #6ce9a6); } .post { color: light-dark(#175cd3, #84caff); } .delete { color: light-dark(#b42318, #fda29b); }
code { font: .9rem ui-monospace, monospace; overflow-wrap: anywhere; }
.text { color: var(--soft); }
.body { border-top: 1px solid var(--line); padding: .6rem .8rem; overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
td { padding: .2rem .8rem .2rem 0; vertical-align: top; border-top: 1px solid var(--line); }
tr:first-child td { border-top: 0; }
`;

/** @param source address of the document itself */
export function openApiPage(document: OpenApiDocument, source: string): string {
  const { info, tags } = document;
  const sections = tags.map((tag) => sectionOf(document, tag)).join("");
  const links = tags.map(({ name }) => `<a href="#${anchorOf(name)}">${escapeHtml(name)}</a>`).join("");
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(info.title)} API</title><style>${STYLE}</style></head>
<body><h1>${escapeHtml(info.title)} ${escapeHtml(info.version)}</h1>
<p>${escapeHtml(info.description)}. The same as <a href="${escapeHtml(source)}">OpenAPI ${document.openapi}</a>.</p>
<nav>${links}</nav>${sections}</body></html>
`;
}

function sectionOf({ paths }: OpenApiDocument, { name, description }: OpenApiDocument["tags"][number]): string {
  const operations = Object.entries(paths).flatMap(([path, byMethod]) =>
    Object.entries(byMethod).flatMap(([method, operation]) =>
      operation.tags.includes(name) ? [operationOf(path, method, operation)] : [],
    ),
  );
  return `<section><h2 id="${anchorOf(name)}">${escapeHtml(name)}</h2><p>${escapeHtml(description)}</p>${operations.join("")}</section>`;
}

function operationOf(path: string, method: string, { summary, requestBody }: Operation): string {
  const [body] = Object.values(requestBody?.content ?? {});
  const schema = body?.schema;
  const rows = schema === undefined ? "" : memberRows(schema);
  const table = rows === "" ? "No body." : `<table>${rows}</table>`;
  return (
    `<details><summary><span class="method ${method}">${method.toUpperCase()}</span><code>${escapeHtml(path)}</code>` +
    `<span class="text">${escapeHtml(summary)}</span></summary><div class="body">${table}</div></details>`
  );
}

function memberRows(schema: JsonValue): string {
  const properties = (schema.properties ?? {}) as Readonly<Record<string, JsonValue>>;
  const required = new Set((schema.required ?? []) as readonly string[]);
  const rows = Object.entries(properties).map(
    ([name, member]) =>
      `<tr><td><code>${escapeHtml(name)}</code></td><td>${escapeHtml(typeText(member))}</td>` +
      `<td class="text">${required.has(name) ? "required" : ""}</td></tr>`,
  );
  return rows.length === 0 ? `<tr><td>${escapeHtml(typeText(schema))}</td></tr>` : rows.join("");
}

/** One line: the type of a member, with its bounds. */
export function typeText(schema: JsonValue): string {
  const { type, enum: values, anyOf, items, minimum, maximum } = schema;
  if (Array.isArray(values)) return values.map((value) => JSON.stringify(value)).join(" | ");
  if (Array.isArray(anyOf)) return [...new Set(anyOf.map((each: JsonValue) => typeText(each)))].join(" | ");
  if (type === "array") return `${typeText((items ?? {}) as JsonValue)}[]`;
  const text = typeof type === "string" ? type : "any";
  const bounds = [boundText("≥", minimum), boundText("≤", maximum)].filter((bound) => bound !== "");
  return bounds.length === 0 ? text : `${text} ${bounds.join(", ")}`;
}

function boundText(sign: string, bound: unknown): string {
  return typeof bound === "number" && Math.abs(bound) < Number.MAX_SAFE_INTEGER ? `${sign} ${bound}` : "";
}

function anchorOf(name: string): string {
  return name.toLowerCase().replaceAll(/\W+/g, "-");
}

function escapeHtml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
