/** Images in the messages of OpenAI's own client, through the vision-language model of the examples. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import OpenAI from "openai";
import { LANGUAGE_MODEL } from "../support/llm-pipeline.ts";
import { createModelRepository, EXAMPLES, type ModelRepository } from "../support/model-repository.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const EXAMPLE_FOLDER = fileURLToPath(new URL("../../examples/", import.meta.url));
const scenes: readonly { readonly index: number; readonly generated: string }[] = JSON.parse(
  readFileSync(`${EXAMPLE_FOLDER}nereid-tiny/golden_captions.json`, "utf8"),
);
const NUM_SCENES = 4;
let repository: ModelRepository;
let server: ServerProcess;
let client: OpenAI;

before(async () => {
  const folder = `${EXAMPLE_FOLDER}vision_repository/`;
  const preprocessing = readFileSync(`${folder}vlm_preprocessing/config.pbtxt`, "utf8");
  repository = await createModelRepository({
    copies: [`${folder}vlm`, `${folder}image_preprocessing`],
    files: {
      "vlm_preprocessing/config.pbtxt": preprocessing.replace("../../nereid-tiny/language_model", LANGUAGE_MODEL),
    },
  });
  server = await startServerProcess({ repositories: [EXAMPLES, repository.path] });
  client = new OpenAI({ apiKey: "none", baseURL: `${server.baseUrl}/v1`, maxRetries: 0 });
});

after(async () => {
  await server?.stop();
  await repository?.[Symbol.asyncDispose]();
});

function ask(url: string): { role: "user"; content: OpenAI.ChatCompletionContentPart[] }[] {
  return [
    {
      role: "user",
      content: [
        { type: "image_url", image_url: { url } },
        { type: "text", text: "Describe the image." },
      ],
    },
  ];
}

function dataUrl(index: number): string {
  const file = `${EXAMPLE_FOLDER}nereid-tiny/images/scene_${String(index).padStart(2, "0")}.png`;
  return `data:image/png;base64,${readFileSync(file).toString("base64")}`;
}

test("the list of models says which one takes images", async () => {
  const capabilities = async (id: string): Promise<unknown> =>
    Reflect.get(await client.models.retrieve(id), "capabilities");
  assert.ok(JSON.stringify(await capabilities("vlm")).includes('"vision"'));
  assert.ok(!JSON.stringify(await capabilities("ensemble")).includes('"vision"'));
});

test("image_url with a data URL gets the caption of the image, streamed or not", async () => {
  for (const { index, generated } of scenes.slice(0, NUM_SCENES)) {
    const body = { model: "vlm", messages: ask(dataUrl(index)), temperature: 0, max_tokens: 40 } as const;
    const answer = await client.chat.completions.create(body);
    assert.equal(answer.choices[0]?.message.content?.trim(), generated);
    let text = "";
    for await (const { choices } of await client.chat.completions.create({ ...body, stream: true })) {
      text += choices[0]?.delta.content ?? "";
    }
    assert.equal(text.trim(), generated);
  }
});

test("input_image of a response gets the same caption", async () => {
  const [scene] = scenes;
  const image_url = dataUrl(scene?.index ?? 0);
  const content = [
    { type: "input_image" as const, detail: "auto" as const, image_url },
    { type: "input_text" as const, text: "Describe the image." },
  ];
  const body = { model: "vlm", temperature: 0, max_output_tokens: 40 };
  const first = await client.responses.create({ ...body, input: [{ role: "user", content }] });
  assert.equal(first.output_text.trim(), scene?.generated);
  const { data } = await client.responses.inputItems.list(first.id);
  assert.match(JSON.stringify(data), /"image_url":"data:image/);
});

const REFUSED: readonly (readonly [what: string, url: string, message: RegExp])[] = [
  ["half of an image", dataUrl(0).slice(0, 300), /image/i],
  ["an address that the model may not fetch", "http://127.0.0.1/x.png", /address|fetch/i],
  ["a file of the server", "file:///etc/passwd", /data URL/],
];

for (const [what, url, message] of REFUSED) {
  test(`${what} is refused, and others are served`, async () => {
    const body = { model: "vlm", messages: ask(url), max_tokens: 4 };
    await assert.rejects(client.chat.completions.create(body), (error: unknown) => {
      assert.ok(error instanceof OpenAI.APIError);
      assert.equal(error.status, 400);
      return message.test(error.message);
    });
    const good = await client.chat.completions.create({ ...body, messages: ask(dataUrl(1)) });
    assert.equal(good.choices.length, 1);
  });
}
