/** LangChain's ChatOpenAI and OpenAIEmbeddings in JavaScript: answers, streams, tools, objects, images, vectors. */
import assert from "node:assert/strict";
import { HumanMessage, SystemMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { ChatOpenAI, OpenAI, OpenAIEmbeddings } from "@langchain/openai";
import { z } from "zod";
import { PNG, runAll, SERVER } from "./checks.mjs";

const server = { apiKey: "none", maxRetries: 0, configuration: { baseURL: `${SERVER}/v1` } };
const MODELS = [
  new ChatOpenAI({ model: "agent", ...server }),
  new ChatOpenAI({ model: "agent", useResponsesApi: true, ...server }),
];
const weather = tool(async ({ town }) => `rain in ${town}`, {
  name: "weather",
  description: "Weather of a town",
  schema: z.object({ town: z.string() }),
});

await runAll({
  "invoke() with a system message": async () => {
    for (const model of MODELS) {
      const answer = await model.invoke([new SystemMessage("Be brief."), new HumanMessage("hello")]);
      assert.equal(answer.text, "You said: hello");
      assert.ok(answer.usage_metadata.output_tokens > 0);
    }
  },
  "stream() gives the text in pieces": async () => {
    for (const model of MODELS) {
      const pieces = [];
      for await (const { text } of await model.stream("hello there")) pieces.push(text);
      assert.ok(pieces.length > 2);
      assert.equal(pieces.join(""), "You said: hello there");
    }
  },
  "batch() answers each in its place": async () => {
    const answers = await MODELS[0].batch(["one", "two"]);
    assert.deepEqual(
      answers.map(({ text }) => text),
      ["You said: one", "You said: two"],
    );
  },
  "bound tools are called, and their results answered": async () => {
    for (const model of MODELS) {
      const bound = model.bindTools([weather]);
      const messages = [new HumanMessage("weather in Oslo and Rome")];
      const first = await bound.invoke(messages);
      assert.deepEqual(
        first.tool_calls.map(({ args }) => args),
        [{ town: "Oslo" }, { town: "Rome" }],
      );
      const results = await Promise.all(first.tool_calls.map((call) => weather.invoke(call)));
      const final = await bound.invoke([...messages, first, ...results]);
      assert.equal(final.text, "The result is rain in Oslo and rain in Rome.");
    }
  },
  "withStructuredOutput() by every method": async () => {
    const schema = z.object({ name: z.string(), kind: z.enum(["cat", "dog"]) });
    for (const model of MODELS) {
      for (const method of ["jsonSchema", "functionCalling"]) {
        const object = await model.withStructuredOutput(schema, { method, name: "pet" }).invoke("Who?");
        assert.deepEqual(object, { name: "text", kind: "cat" }, method);
      }
    }
  },
  "an image reaches the model": async () => {
    const image = { type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } };
    const message = new HumanMessage({ content: [{ type: "text", text: "this?" }, image] });
    for (const model of MODELS) assert.equal((await model.invoke([message])).text, "I see 1.");
  },
  "completions and vectors": async () => {
    const plain = new OpenAI({ model: "tensorrt_llm", temperature: 0, maxTokens: 4, ...server });
    assert.notEqual(await plain.invoke("Hello"), "");
    const embeddings = new OpenAIEmbeddings({ model: "vectors", ...server });
    assert.deepEqual(await embeddings.embedDocuments(["abc", "a"]), [
      [3, 4, 0],
      [1, 4, 0],
    ]);
    assert.deepEqual(await embeddings.embedQuery("ab"), [2, 4, 0]);
  },
});
