import assert from "node:assert/strict";
import { test } from "node:test";
import { Cors } from "./cors.ts";

const header = (values: Readonly<Record<string, string>>) => (name: string) => values[name];
const headerOf = (headers: readonly string[], name: string): string | undefined => headers[headers.indexOf(name) + 1];

const ORIGINS: readonly (readonly [
  origins: readonly string[],
  origin: string | undefined,
  allowed: string | undefined,
  credentials: boolean,
])[] = [
  [["https://a.example"], "https://a.example", "https://a.example", true],
  [["https://a.example"], "https://b.example", undefined, false],
  [["https://a.example"], "http://a.example", undefined, false],
  [["https://a.example"], "https://a.example:8443", undefined, false],
  [["https://a.example"], "https://a.example.evil.example", undefined, false],
  [["https://a.example"], "https://A.example", undefined, false],
  [["https://a.example"], "null", undefined, false],
  [["https://a.example"], undefined, undefined, false],
  [["*"], "https://b.example", "*", false],
  [["*"], "null", "*", false],
  [["*", "https://a.example"], "https://a.example", "https://a.example", true],
  [["*"], undefined, undefined, false],
];

for (const [origins, origin, allowed, credentials] of ORIGINS) {
  test(`${origins.join(" ")} ${allowed === undefined ? "hides answers from" : "shows answers to"} ${origin}`, () => {
    const cors = new Cors(origins);
    const sent = origin === undefined ? {} : { origin };
    const answer = cors.headers(header(sent));
    assert.equal(answer.includes("Access-Control-Allow-Credentials"), credentials);
    assert.equal(answer.includes("Access-Control-Expose-Headers"), allowed !== undefined);
    assert.equal(answer.includes("Vary"), allowed !== "*");
    const preflight = cors.preflight("OPTIONS", header({ ...sent, "access-control-request-method": "POST" }));
    assert.equal(preflight?.status, allowed === undefined ? 403 : 204);
    assert.equal(
      headerOf(preflight?.headers ?? [], "Access-Control-Allow-Methods") === "GET, POST, DELETE",
      allowed !== undefined,
    );
    const shown = answer.includes("Access-Control-Allow-Origin")
      ? headerOf(answer, "Access-Control-Allow-Origin")
      : undefined;
    assert.equal(shown, allowed);
  });
}

const WANTED: readonly (readonly [wanted: string | undefined, allowed: boolean])[] = [
  ["authorization", true],
  ["authorization,content-type, x-stainless-os", true],
  [undefined, false],
  ["", false],
  ["a b", false],
  ["x\r\nset-cookie: a", false],
  ["a,", false],
];

for (const [wanted, isAllowed] of WANTED) {
  test(`a preflight ${isAllowed ? "allows" : "does not repeat"} the headers ${JSON.stringify(wanted)}`, () => {
    const sent = { origin: "https://a.example", "access-control-request-method": "POST" };
    const values = wanted === undefined ? sent : { ...sent, "access-control-request-headers": wanted };
    const { headers = [] } = new Cors(["https://a.example"]).preflight("OPTIONS", header(values)) ?? {};
    assert.equal(headers.includes("Access-Control-Allow-Headers"), isAllowed);
    assert.equal(headers.includes(wanted ?? ""), isAllowed);
  });
}

test("requests that are no preflight go on to their route", () => {
  const cors = new Cors(["*"]);
  assert.equal(cors.preflight("OPTIONS", header({ origin: "https://a.example" })), undefined);
  assert.equal(cors.preflight("POST", header({ "access-control-request-method": "POST" })), undefined);
});
