import assert from "node:assert/strict";
import { test } from "node:test";
import { EMPTY_HASH, encodePart, queryText, signed } from "./sigv4.ts";

/** From the Amazon S3 API Reference, "Authenticating Requests: Using the Authorization Header". */
const KEYS = {
  keyId: "AKIAIOSFODNN7EXAMPLE",
  secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
  sessionToken: undefined,
};
const SCOPE = { region: "us-east-1", service: "s3", atMs: Date.UTC(2013, 4, 24) };
const EXAMPLES: readonly (readonly [string, string, Record<string, string>, string])[] = [
  [
    "an object",
    "/test.txt",
    { range: "bytes=0-9" },
    "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
  ],
  ["a setting", "/?lifecycle", {}, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"],
  ["a listing", "/?max-keys=2&prefix=J", {}, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"],
];
for (const [title, path, headers, signature] of EXAMPLES) {
  test(`signed() gives Amazon's published signature of a request for ${title}`, () => {
    const url = new URL(`https://examplebucket.s3.amazonaws.com${path}`);
    const sent = signed({ method: "GET", url, headers, payloadHash: EMPTY_HASH }, KEYS, SCOPE);
    const names = Object.keys({ host: "", ...headers, "x-amz-content-sha256": "", "x-amz-date": "" }).join(";");
    assert.equal(
      sent.authorization,
      `AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, SignedHeaders=${names}, Signature=${signature}`,
    );
  });
}

test("signed() signs the token of a session and the words of a query in their order", () => {
  const url = new URL("https://h/b?z=1&a=2");
  const sent = signed(
    { method: "GET", url, headers: {}, payloadHash: EMPTY_HASH },
    { ...KEYS, sessionToken: "token" },
    SCOPE,
  );
  assert.equal(sent["x-amz-security-token"], "token");
  assert.match(sent.authorization ?? "", /SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token,/);
  const swapped = signed(
    { method: "GET", url: new URL("https://h/b?a=2&z=1"), headers: {}, payloadHash: EMPTY_HASH },
    { ...KEYS, sessionToken: "token" },
    SCOPE,
  );
  assert.equal(sent.authorization, swapped.authorization);
});

test("encodePart() leaves nothing but letters, digits and -._~ as it is", () => {
  assert.equal(encodePart("a/b c+d!'()*é~_.-"), "a%2Fb%20c%2Bd%21%27%28%29%2A%C3%A9~_.-");
  assert.equal(queryText({ prefix: "m/1", "list-type": "2" }), "prefix=m%2F1&list-type=2");
});
