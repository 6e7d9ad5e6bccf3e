import assert from "node:assert/strict";
import { test } from "node:test";
import { sharedKeyAuthorization, stringToSign } from "./shared-key.ts";

test("stringToSign() gives the text of Azure's published example", () => {
  const url = new URL("https://myaccount.blob.core.windows.net/mycontainer?comp=metadata&restype=container&timeout=20");
  const headers = { "x-ms-version": "2015-02-21", "x-ms-date": "Fri, 26 Jun 2015 23:39:12 GMT" };
  assert.equal(
    stringToSign({ method: "GET", url, headers }, "myaccount"),
    "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\nx-ms-version:2015-02-21\n/myaccount/mycontainer\ncomp:metadata\nrestype:container\ntimeout:20",
  );
});

test("stringToSign() takes the range, the condition and an encoded path as they are sent", () => {
  const url = new URL("https://a.blob.core.windows.net/c/m%C3%BC/1");
  const headers = { range: "bytes=5-", "if-match": '"0x1"', "x-ms-version": "2021-08-06" };
  assert.equal(
    stringToSign({ method: "GET", url, headers }, "a"),
    'GET\n\n\n\n\n\n\n\n"0x1"\n\n\nbytes=5-\nx-ms-version:2021-08-06\n/a/c/m%C3%BC/1',
  );
});

test("sharedKeyAuthorization() differs with the key and names the account", () => {
  const request = { method: "GET", url: new URL("https://a/c"), headers: {} } as const;
  const one = sharedKeyAuthorization(request, "a", Buffer.from("one").toString("base64"));
  const two = sharedKeyAuthorization(request, "a", Buffer.from("two").toString("base64"));
  assert.match(one, /^SharedKey a:[A-Za-z0-9+/]{43}=$/);
  assert.notEqual(one, two);
});
