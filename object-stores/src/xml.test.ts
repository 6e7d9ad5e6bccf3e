import assert from "node:assert/strict";
import { test } from "node:test";
import { xmlElements, xmlText } from "./xml.ts";

test("xmlText() decodes entities once, and leaves what is none", () => {
  assert.equal(
    xmlText("<Key>&lt;a&gt; &amp;amp; &#65;&#x42; &quot;&apos; &nosuch; &#x110000;</Key>", "Key"),
    `<a> &amp; AB "' &nosuch; &#x110000;`,
  );
});

test("xmlElements() finds elements by their whole name", () => {
  const xml = `<Blobs><Blob a="1"><Name>x</Name></Blob><BlobPrefix><Name>y/</Name></BlobPrefix><Blob/></Blobs>`;
  assert.deepEqual(xmlElements(xml, "Blob"), ["<Name>x</Name>", ""]);
  assert.deepEqual(xmlElements(xml, "BlobPrefix"), ["<Name>y/</Name>"]);
});

test("xmlElements() ends at an element that has no end", () => {
  assert.deepEqual(xmlElements("<A>1</A><A>2", "A"), ["1"]);
  assert.equal(xmlText("<A>", "A"), undefined);
});
