/** A picture and a question go to the model `vlm_search`; its answer and the best matches come back in one response. */

const byId = (id) => document.getElementById(id);
const [drop, file, form, question, answer, matches, note] = [
  "drop",
  "file",
  "form",
  "question",
  "answer",
  "matches",
  "note",
].map(byId);
const MAX_TOKENS = 40;
let picture;

drop.addEventListener("dragover", (event) => {
  event.preventDefault();
  drop.classList.add("over");
});
drop.addEventListener("dragleave", () => drop.classList.remove("over"));
drop.addEventListener("drop", (event) => {
  event.preventDefault();
  drop.classList.remove("over");
  void show(event.dataTransfer.files[0]);
});
document.addEventListener("paste", (event) => show(event.clipboardData.files[0]));
file.addEventListener("change", () => show(file.files[0]));
form.addEventListener("submit", (event) => {
  event.preventDefault();
  void ask();
});

async function show(chosen) {
  if (chosen === undefined) return;
  picture = await dataUrlOf(chosen);
  const image = new Image();
  image.src = picture;
  image.alt = chosen.name;
  drop.querySelector("span").replaceChildren(image);
  await ask();
}

async function ask() {
  if (picture === undefined) {
    say("Choose a picture first.", true);
    return;
  }
  say("…", false);
  matches.hidden = true;
  const startMs = performance.now();
  try {
    const body = JSON.stringify({ image: picture, text_input: question.value, max_tokens: MAX_TOKENS });
    const reply = await fetch("/v2/models/vlm_search/generate", { method: "POST", body });
    const found = await reply.json();
    if (!reply.ok) throw new Error(found.error);
    say(found.text_output.trim(), false);
    list(found);
    note.textContent = `One request, ${Math.round(performance.now() - startMs)} ms. Description: ${found.description.trim()}`;
  } catch (error) {
    say(error.message, true);
    note.textContent = "";
  }
}

function list({ matches: documents, match_scores: scores }) {
  // A single one is not in a list.
  const rows = [documents].flat().map((text, i) => row([scores].flat()[i], JSON.parse(text).text));
  matches.tBodies[0].replaceChildren(...rows);
  matches.hidden = rows.length === 0;
}

function row(score, text) {
  const line = document.createElement("tr");
  const [number, words] = [line.insertCell(), line.insertCell()];
  number.className = "score";
  number.textContent = score.toFixed(4);
  words.textContent = text;
  return line;
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
