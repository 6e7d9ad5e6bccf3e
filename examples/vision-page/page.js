/** A picture and a question go to the model `vlm_search`; its answer and the best matches come back in one response. */

const NAMES = ["drop", "file", "samples", "form", "question", "send", "answer", "found", "matches", "note"];
const { drop, file, samples, form, question, send, answer, found, matches, note } = Object.fromEntries(
  NAMES.map((name) => [name, document.getElementById(name)]),
);
const SAMPLES = ["scene_05", "scene_07", "scene_08", "scene_13", "scene_20", "scene_30"];
const MAX_TOKENS = 40;
/** Pictures of up to this many pixels a side are shown larger than they are. */
const SMALL_SIDE = 128;
const greeting = [...drop.querySelector("span").childNodes];
let picture;
/** Ends the request under way when another one takes its place. */
let current = new AbortController();

// A picture that misses the box must not take the place of the page.
document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", (event) => event.preventDefault());
drop.addEventListener("dragover", () => drop.classList.add("over"));
drop.addEventListener("dragleave", () => drop.classList.remove("over"));
drop.addEventListener("drop", (event) => {
  drop.classList.remove("over");
  void show(event.dataTransfer.files[0]);
});
document.addEventListener("paste", (event) => show(event.clipboardData.files[0]));
file.addEventListener("change", async () => {
  await show(file.files[0]);
  file.value = ""; // so that the same file may be chosen again
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  void ask();
});
for (const name of SAMPLES) samples.append(sample(`samples/${name}.png`));

function sample(address) {
  const button = document.createElement("button");
  button.type = "button";
  button.title = "Ask about this picture";
  const image = Object.assign(new Image(), { src: address, alt: "an example" });
  image.addEventListener("error", () => button.remove());
  button.append(image);
  button.addEventListener("click", async () => show(await (await fetch(address)).blob()));
  return button;
}

async function show(chosen) {
  if (chosen === undefined) return;
  const address = await dataUrlOf(chosen);
  const image = Object.assign(new Image(), { src: address, alt: chosen.name ?? "the picture" });
  try {
    await image.decode();
  } catch {
    picture = undefined;
    current.abort();
    drop.querySelector("span").replaceChildren(...greeting);
    clear(`${chosen.name ?? "That"} is no picture that can be shown.`, true);
    return;
  }
  picture = address;
  image.classList.toggle("small", Math.max(image.naturalWidth, image.naturalHeight) <= SMALL_SIDE);
  drop.querySelector("span").replaceChildren(image);
  await ask();
}

async function ask() {
  current.abort();
  if (picture === undefined) {
    clear("Choose a picture first.", true);
    return;
  }
  current = new AbortController();
  const { signal } = current;
  clear("Looking…", false);
  send.disabled = true;
  const startMs = performance.now();
  try {
    const reply = await request(signal);
    say(reply.text_output.trim(), false);
    list(reply);
    const waitedMs = Math.round(performance.now() - startMs);
    note.textContent = `One request, ${waitedMs} ms. Looked up by the model's description: “${reply.description.trim()}”`;
  } catch (error) {
    if (signal.aborted) return;
    say(error.message, true);
  } finally {
    if (!signal.aborted) send.disabled = false;
  }
}

/** The fields of the answer. @throws Error with what the server said */
async function request(signal) {
  const body = JSON.stringify({ image: picture, text_input: question.value, max_tokens: MAX_TOKENS });
  const reply = await fetch("v2/models/vlm_search/generate", { method: "POST", body, signal });
  const text = await reply.text();
  if (!reply.headers.get("content-type")?.includes("json")) throw new Error(`${reply.status}: ${text}`);
  const fields = JSON.parse(text);
  if (!reply.ok) throw new Error(fields.error);
  return fields;
}

function list({ matches: documents, match_scores: scores }) {
  // A single one is not in a list.
  const rows = [documents].flat().map((text, i) => row([scores].flat()[i], JSON.parse(text).text));
  matches.replaceChildren(...rows);
  found.hidden = rows.length === 0;
}

function row(score, text) {
  const line = document.createElement("tr");
  const [number, words] = [line.insertCell(), line.insertCell()];
  const bar = document.createElement("i");
  bar.style.setProperty("--part", `${100 * Math.min(1, Math.max(0, score))}%`);
  number.className = "score";
  number.append(bar, score.toFixed(4));
  words.textContent = text;
  return line;
}

function clear(text, isError) {
  say(text, isError);
  found.hidden = true;
  note.textContent = "";
  send.disabled = false;
}

function say(text, isError) {
  answer.textContent = text;
  answer.classList.toggle("error", isError);
}

function dataUrlOf(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
}
