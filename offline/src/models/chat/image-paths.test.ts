import assert from "node:assert/strict";
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { imagePathsIn, withImages } from "./image-paths.ts";

const folder = mkdtempSync(join(tmpdir(), "nereid-images-"));
after(() => rmSync(folder, { recursive: true }));
const PNG = join(folder, "a cat.png");
writeFileSync(PNG, "bytes");
const IMAGE = { type: "image_url", image_url: { url: `data:image/png;base64,${btoa("bytes")}` } };

for (const [text, paths] of [
  ["Look at ./cat.png", ["./cat.png"]],
  ["../a.JPG and /b/c.webp, please", ["../a.JPG", "/b/c.webp"]],
  ["~/x.gif?", [`${homedir()}/x.gif`]],
  ["'/my cats/a.png' \"/my dogs/b.jpeg\"", ["/my cats/a.png", "/my dogs/b.jpeg"]],
  ["/my\\ cats/a.png what is it", ["/my cats/a.png"]],
  ["cat.png, https://x.org/a.png and a/b.png are no paths here", []],
  ["./notes.txt ./png ./a.png.txt", []],
] as const) {
  test(`imagePathsIn() of: ${text}`, () => {
    assert.deepEqual(
      imagePathsIn(text).map(({ path }) => path),
      paths,
    );
  });
}

test("withImages() puts the images in front of the words", async () => {
  assert.deepEqual(await withImages(`What is on "${PNG}"?`), [IMAGE, { type: "text", text: "What is on ?" }]);
  assert.deepEqual(await withImages(PNG.replace(" ", "\\ ")), [IMAGE]);
});

test("withImages() leaves text alone where no file is", async () => {
  const text = "Why does /img/none.png give 404?";
  assert.equal(await withImages(text), text);
});

test("withImages() refuses a file that is too large", async () => {
  const large = join(folder, "large.png");
  writeFileSync(large, "");
  truncateSync(large, 21 * 2 ** 20);
  await assert.rejects(withImages(large), /large\.png has 22020096 bytes, expected at most 20971520$/);
});
