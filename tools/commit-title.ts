/** The rule for titles of commits: `type(scope): imperative`, short enough for one line of `git log`. Reads no repository. */

const MAX_TITLE_CHARS = 72;
const TYPES = ["feat", "fix", "perf", "refactor", "test", "docs", "bench", "build", "ci", "chore", "revert"] as const;
const TITLE = /^(?<type>[a-z]+)(?:\((?<scope>[a-z0-9][a-z0-9 ,./-]*)\))?!?: (?<text>.+)$/;
/** Git writes these itself. */
const BY_GIT = /^(Merge |Revert "|fixup! |squash! |amend! )/;
/** Third person, past and -ing forms of the verbs that titles begin with, and words that begin no imperative. */
const NOT_IMPERATIVE =
  /^(adds|added|adding|fixes|fixed|fixing|removes|removed|removing|updates|updated|updating|uses|used|using|makes|made|making|moves|moved|moving|renames|renamed|renaming|changes|changed|changing|allows|allowed|the|a|an|there|this|it|we|now)$/i;

/** Empty for a good title; one text for each rule that it breaks. */
export function titleProblems(title: string): readonly string[] {
  if (BY_GIT.test(title)) return [];
  const problems: string[] = [];
  const numChars = [...title].length;
  if (numChars > MAX_TITLE_CHARS) problems.push(`at most ${MAX_TITLE_CHARS} characters expected, got ${numChars}`);
  const { type = "", text = "" } = TITLE.exec(title)?.groups ?? {};
  if (text === "") return [...problems, '"type(scope): imperative" expected, the scope is optional'];
  if (!TYPES.some((one) => one === type)) problems.push(`a type among ${TYPES.join(", ")} expected, got "${type}"`);
  const [first = ""] = text.split(" ");
  if (NOT_IMPERATIVE.test(first)) problems.push(`an imperative expected after the colon, got "${first}"`);
  if (/\.$/.test(text)) problems.push("no final period expected");
  return problems;
}

/** Title of a message as an editor leaves it, without Git's comments and leading empty lines. */
export function titleOf(message: string): string {
  return message.split("\n").find((line) => line.trim() !== "" && !line.startsWith("#")) ?? "";
}

/** The line below a title is empty, or Git takes both for the title. */
export function messageProblems(message: string): readonly string[] {
  const lines = message.split("\n").filter((line) => !line.startsWith("#"));
  const at = lines.findIndex((line) => line.trim() !== "");
  if (at < 0) return ["a title expected, got an empty message"];
  const hasGap = (lines[at + 1] ?? "").trim() === "";
  return [...titleProblems(lines[at] ?? ""), ...(hasGap ? [] : ["an empty line expected below the title"])];
}
