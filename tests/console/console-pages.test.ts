/** The console in a real Chromium, as operators use it: by mouse, by keyboard, and by the rules of WCAG. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { type Browser, chromium, type Page } from "playwright-core";
import { longTestsReason } from "../support/long-tests.ts";
import type { ModelRepository } from "../support/model-repository.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { CHROMIUM, noChromiumReason } from "./browser.ts";
import { CONSOLE_FLAGS, createConsoleModels } from "./console-models.ts";

const TIMEOUT_MS = 120_000;
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
const WIDE = { width: 1280, height: 860 };
const NARROW = { width: 390, height: 844 };
const VIEWS = [
  "models",
  "models/pipeline",
  "models/prepare/config",
  "live",
  "requests",
  "playground/words",
  "playground/pipeline",
  "logs",
] as const;
const REQUEST = { inputs: [{ name: "X", datatype: "FP32", shape: [1, 4], data: [1, 2, 3, 4] }] };

const short = { skip: noChromiumReason ?? false };
const long = { skip: noChromiumReason ?? longTestsReason ?? false };
const folder = mkdtempSync(join(tmpdir(), "console-pages-"));
let models: ModelRepository;
let server: ServerProcess;
let browser: Browser;

before(async () => {
  if (noChromiumReason !== undefined) return;
  models = await createConsoleModels();
  [server, browser] = await Promise.all([
    startServerProcess({ repositories: [models.path], flags: CONSOLE_FLAGS, waitFor: "live" }),
    chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] }),
  ]);
});
after(async () => {
  await browser?.close();
  await server?.kill();
  await models?.[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

/** A tab of its own, whose scripts must not fail. */
async function open(view: string, run: (page: Page) => Promise<void>, at: ServerProcess = server): Promise<void> {
  const context = await browser.newContext({ viewport: WIDE, reducedMotion: "reduce" });
  const page = await context.newPage();
  page.setDefaultTimeout(TIMEOUT_MS);
  const faults: string[] = [];
  page.on("pageerror", (error) => faults.push(error.message));
  try {
    await page.goto(`${at.baseUrl}/console#/${view}`);
    await page.locator("h1").waitFor();
    await run(page);
  } finally {
    await context.close();
  }
  assert.deepEqual(faults, []);
}

async function infer(model: string): Promise<void> {
  const path = `${server.baseUrl}/v2/models/${model}/infer`;
  const response = await fetch(path, { method: "POST", body: JSON.stringify(REQUEST) });
  assert.equal(response.status, 200, await response.text());
}

async function violations(page: Page): Promise<readonly string[]> {
  await page.evaluate(AXE);
  return page.evaluate(async (rules) => {
    interface Axe {
      run(options: unknown): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }>;
    }
    const { axe } = globalThis as unknown as { axe: Axe };
    const found = await axe.run({ runOnly: rules });
    return found.violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
  }, RULES);
}

test("an operator loads a broken model and reads why it does not load", short, () =>
  open("models", async (page) => {
    const card = page.locator('[data-model="broken"]');
    await card.getByRole("button", { name: "Load" }).click();
    await card.getByRole("alert").getByText("failed to load 'broken'").waitFor();
    const findings = card.getByRole("list", { name: "Diagnosis" });
    await findings.getByText("the model configuration has no field 'max_batch_sizes'").waitFor();
    assert.match(await findings.innerText(), /Fix: [\s\S]*broken\/config\.pbtxt:2/);
  }),
);

test("a model is loaded, reloaded and unloaded", long, () =>
  open("models", async (page) => {
    const card = page.locator('[data-model="stalls"]');
    await card.getByRole("button", { name: "Reload" }).click();
    await card.getByText("Ready").waitFor();
    await page.getByRole("searchbox").fill("word");
    const words = page.locator('[data-model="words"]');
    await words.getByRole("button", { name: "Unload" }).click();
    await words.getByText("Not loaded").waitFor();
    await words.getByRole("button", { name: "Load" }).click();
    await words.getByText("Ready").waitFor();
    assert.equal(await page.locator("[data-model]").count(), 1);
  }),
);

test("an operator watches a stream, and sees words before the last has come", long, () =>
  open("playground/words", async (page) => {
    await page.getByLabel("Message", { exact: true }).fill("100");
    await page.keyboard.press("Enter");
    const answer = page.getByTestId("answer");
    await answer.filter({ hasText: "word2" }).filter({ hasNotText: "word100" }).waitFor();
    await page.getByText("First token after").waitFor();
    assert.match(await page.getByLabel("Conversation").innerText(), /word100/);
  }),
);

test("a stream is stopped, and what came stays", long, () =>
  open("playground/words", async (page) => {
    await page.getByLabel("Message", { exact: true }).fill("10000");
    await page.keyboard.press("Enter");
    await page.locator('[data-testid="answer"]', { hasText: "word2" }).waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByRole("button", { name: "New chat" }).waitFor();
    assert.match(await page.getByLabel("Conversation").innerText(), /word1/);
    assert.equal(await page.getByRole("alert").count(), 0);
  }),
);

test("an operator finds the step that stalls for 300 ms in the waterfall", long, () =>
  open("requests", async (page) => {
    await page.getByText("Requests are traced while this view is open").waitFor();
    await infer("pipeline");
    await page
      .getByRole("row", { name: /pipeline/ })
      .getByRole("link")
      .click();
    const waterfall = page.getByLabel("Waterfall of a request of pipeline");
    const text = await waterfall.getByTestId("longest").innerText();
    assert.match(text, /^Longest part: compute of stalls, 3\d\d ms/);
    const rows = await waterfall.getByRole("listitem").allInnerTexts();
    assert.ok(rows.length >= 10, rows.join("; "));
  }),
);

test("the live view follows requests", long, () =>
  open("live", async (page) => {
    await page.getByText("succeeded").waitFor();
    const timer = setInterval(() => void infer("prepare"), 50);
    try {
      await page
        .locator(".figure", { hasText: /^Requests/ })
        .locator("dd", { hasText: /[1-9]/ })
        .waitFor();
      await page.getByLabel("Model").selectOption("prepare");
      await page.getByLabel("Batch size 1", { exact: true }).waitFor();
    } finally {
      clearInterval(timer);
    }
  }),
);

test("tensors are sent from the form and as JSON, and mistakes are named", long, () =>
  open("playground/pipeline", async (page) => {
    await page.getByLabel("Values").fill("1, 2, 3, 4.5");
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByText('"data": [1, 2, 3, 4.5]').last().waitFor();
    await page.getByLabel("Values").fill("1, 2");
    await page.getByText("holds 4 elements, but there are 2 values").first().waitFor();
    assert.ok(await page.getByRole("button", { name: "Send" }).isDisabled());
    await page.getByLabel("Values").fill("5, 6, 7, 8");
    await page.getByRole("button", { name: "JSON" }).click();
    assert.match(await page.getByLabel("Request as JSON").inputValue(), /"data": \[5, 6, 7, 8\]/);
    await page.getByRole("button", { name: "Python" }).click();
    assert.match(
      await page.getByLabel("The same request in code").innerText(),
      /InferenceServerClient\("127\.0\.0\.1:\d+"\)/,
    );
  }),
);

test("a configuration is checked while it is typed, tried on a copy, applied and rolled back", long, () =>
  open("models/prepare/config", async (page) => {
    const area = page.getByLabel("Configuration", { exact: true });
    const text = await area.inputValue();
    await area.fill(text.replace("max_batch_size", "max_batch_sise"));
    await page.getByText(/^Line 4, column 1: .*did you mean 'max_batch_size'/).waitFor();
    assert.ok(await page.getByRole("button", { name: "Apply" }).isDisabled());
    await area.fill(text.replace("max_batch_size: 8", "max_batch_size: 2"));
    await page.getByText("The configuration is valid").waitFor();
    await page.getByRole("button", { name: "Try on a copy" }).click();
    await page.getByRole("link", { name: "prepare.trial" }).waitFor();
    await page.getByRole("button", { name: "End the trial" }).click();
    await page.getByText("The copy is gone").waitFor();
    await page.getByRole("button", { name: "Apply" }).click();
    await page.getByText("differs from the file").waitFor();
    await page.getByRole("button", { name: "Roll back" }).click();
    await page.getByText("The model runs as its file says").waitFor();
    assert.equal(await area.inputValue(), text);
  }),
);

test("the log is filtered by level and by text", long, () =>
  open("logs", async (page) => {
    const log = page.getByLabel("Records of the log");
    await log.getByText("Started HTTPService").waitFor();
    await page.getByRole("searchbox").fill("HTTPService");
    await log.getByText("Started HTTPService").waitFor();
    await page.locator(".log li").nth(1).waitFor({ state: "detached" });
    await page.getByRole("button", { name: "info" }).click();
    await log.getByText("No record fits").waitFor();
  }),
);

test("the keyboard alone reaches the content, the views and the theme", long, () =>
  open("models", async (page) => {
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate("document.activeElement?.id"), "main");
    await page.getByRole("link", { name: "Live" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Live" }).waitFor();
    const theme = page.getByRole("button", { name: /^Theme/ });
    await theme.focus();
    for (const name of ["light", "dark"]) {
      await page.keyboard.press("Enter");
      await page.locator(`html[data-theme="${name}"]`).waitFor();
    }
    await page.getByRole("button", { name: "API key and headers" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
  }),
);

test("a server with keys is shown once its key is given", long, async () => {
  const keyFile = join(folder, "keys.json");
  const sha256 = createHash("sha256").update("sk-page").digest("hex");
  writeFileSync(keyFile, JSON.stringify({ keys: [{ name: "page", sha256 }] }));
  const flags = [...CONSOLE_FLAGS, `--api-key-file=${keyFile}`, "--api-keys-for=v2,openai"];
  const guarded = await startServerProcess({ repositories: [models.path], flags, waitFor: "live" });
  try {
    await open(
      "models",
      async (page) => {
        await page.getByRole("button", { name: "Enter a key" }).click();
        await page.getByLabel("API key", { exact: false }).last().fill("sk-page");
        await page.getByRole("button", { name: "Use" }).click();
        await page.locator('[data-model="words"]').waitFor();
        assert.equal(await page.getByRole("alert").count(), 0);
      },
      guarded,
    );
  } finally {
    await guarded.kill();
  }
});

for (const view of VIEWS) {
  test(`axe finds nothing in ${view}: light, dark, narrow`, long, () =>
    open(view, async (page) => {
      await infer("pipeline");
      for (const scheme of ["light", "dark"] as const) {
        await page.emulateMedia({ colorScheme: scheme });
        assert.deepEqual(await violations(page), [], scheme);
      }
      await page.setViewportSize(NARROW);
      assert.deepEqual(await violations(page), [], "narrow");
      const overflow = await page.evaluate<number>("document.documentElement.scrollWidth - innerWidth");
      assert.ok(overflow <= 0, `${overflow} pixels wider than the screen`);
    }),
  );
}
