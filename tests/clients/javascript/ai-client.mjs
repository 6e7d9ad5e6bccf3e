/** The Vercel AI SDK with its providers for OpenAI and for servers like it: texts, streams, tools, objects, vectors, images. */
import assert from "node:assert/strict";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { embed, embedMany, generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { PNG, runAll, SERVER } from "./checks.mjs";

const compatible = createOpenAICompatible({
  name: "nereid",
  baseURL: `${SERVER}/v1`,
  supportsStructuredOutputs: true,
  includeUsage: true,
});
const openai = createOpenAI({ baseURL: `${SERVER}/v1`, apiKey: "none" });
/** By chat completions through both providers, and by responses. */
const MODELS = [compatible("agent"), openai.chat("agent"), openai.responses("agent")];
const options = { maxRetries: 0 };
const weather = tool({
  description: "Weather of a town",
  inputSchema: z.object({ town: z.string() }),
  execute: async ({ town }) => `rain in ${town}`,
});
const schema = z.object({ name: z.string(), kind: z.enum(["cat", "dog"]) });

await runAll({
  "generateText() gives the text, its end and counts": async () => {
    for (const model of MODELS) {
      const { text, finishReason, usage } = await generateText({
        ...options,
        model,
        system: "Be brief.",
        prompt: "hello",
      });
      assert.deepEqual([text, finishReason], ["You said: hello", "stop"]);
      assert.ok(usage.outputTokens > 0 && usage.inputTokens > 0, JSON.stringify(usage));
    }
  },
  "streamText() gives the text in pieces": async () => {
    for (const model of MODELS) {
      const pieces = [];
      const stream = streamText({ ...options, model, prompt: "hello there" });
      for await (const piece of stream.textStream) pieces.push(piece);
      assert.ok(pieces.length > 1);
      assert.equal(pieces.join(""), "You said: hello there");
      assert.ok((await stream.usage).outputTokens > 0);
    }
  },
  "a tool is called and its result answered, over several steps": async () => {
    for (const model of MODELS) {
      const more = { tools: { weather }, stopWhen: stepCountIs(4) };
      const { text, steps } = await generateText({ ...options, ...more, model, prompt: "weather in Oslo and Rome" });
      assert.equal(text, "The result is rain in Oslo and rain in Rome.");
      assert.deepEqual(
        steps.map(({ finishReason }) => finishReason),
        ["tool-calls", "stop"],
      );
    }
  },
  "streamed steps do the same": async () => {
    for (const model of MODELS) {
      const more = { tools: { weather }, stopWhen: stepCountIs(4) };
      const stream = streamText({ ...options, ...more, model, prompt: "weather in Oslo" });
      assert.equal((await stream.text).replace(/\s+/g, " "), "The result is rain in Oslo.");
      assert.equal((await stream.steps).length, 2);
    }
  },
  "toolChoice required and by name": async () => {
    for (const model of MODELS) {
      for (const toolChoice of ["required", { type: "tool", toolName: "weather" }]) {
        const { toolCalls } = await generateText({
          ...options,
          model,
          tools: { weather },
          toolChoice,
          prompt: "hello",
        });
        assert.deepEqual(
          toolCalls.map(({ input }) => input),
          [{ town: "text" }],
        );
      }
    }
  },
  "an object of a schema, whole and streamed": async () => {
    for (const model of MODELS) {
      const output = Output.object({ schema });
      const whole = await generateText({ ...options, model, output, prompt: "Who?" });
      assert.deepEqual(whole.output, { name: "text", kind: "cat" });
      const stream = streamText({ ...options, model, output, prompt: "Who?" });
      let last;
      for await (const part of stream.partialOutputStream) last = part;
      assert.deepEqual(last, { name: "text", kind: "cat" });
    }
  },
  "reasoning comes apart from the text": async () => {
    for (const model of [MODELS[0], MODELS[2]]) {
      // Only models of OpenAI's own names are known to reason; a summary comes when it is asked for.
      const providerOptions = { openai: { forceReasoning: true, reasoningSummary: "auto" } };
      const { text, reasoningText } = await generateText({ ...options, model, providerOptions, prompt: "think" });
      assert.deepEqual([text.trim(), reasoningText], ["an answer", "a thought"]);
    }
  },
  "an image reaches the model": async () => {
    const image = { type: "image", image: PNG, mediaType: "image/png" };
    const messages = [{ role: "user", content: [{ type: "text", text: "this?" }, image] }];
    for (const model of MODELS) assert.equal((await generateText({ ...options, model, messages })).text, "I see 1.");
  },
  completions: async () => {
    for (const model of [compatible.completionModel("tensorrt_llm"), openai.completion("tensorrt_llm")]) {
      const { text } = await generateText({ ...options, model, prompt: "Hello", maxOutputTokens: 4, temperature: 0 });
      assert.notEqual(text, "");
    }
  },
  "embed() and embedMany()": async () => {
    for (const model of [compatible.embeddingModel("vectors"), openai.embedding("vectors")]) {
      assert.deepEqual((await embed({ ...options, model, value: "abc" })).embedding, [3, 4, 0]);
      const { embeddings } = await embedMany({ ...options, model, values: ["a", "ab"] });
      assert.deepEqual(embeddings, [
        [1, 4, 0],
        [2, 4, 0],
      ]);
    }
  },
  "an unknown model is an error with its status": async () => {
    for (const model of [compatible("none"), openai.chat("none"), openai.responses("none")]) {
      await assert.rejects(generateText({ ...options, model, prompt: "x" }), { statusCode: 404 });
    }
  },
});
