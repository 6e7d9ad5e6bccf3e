/**
 * Finds the comments of TypeScript, JavaScript, CUDA and Python sources as texts, for the rules of prose. It reads no syntax:
 * a comment mark inside a string counts as a comment. Reads no file.
 */

export interface Comment {
  /** The line on which the comment begins. */
  readonly line: number;
  readonly text: string;
}

const BLOCK = /\/\*+([\s\S]*?)\*\//g;
const LINE = /(?:^|[\s;,{}()])\/\/+\s?(.*)$/;
const PYTHON_DOC = /"""([\s\S]*?)"""/g;
const PYTHON_LINE = /(?:^|\s)#\s?(.*)$/;

export function commentsIn(path: string, source: string): readonly Comment[] {
  const isPython = path.endsWith(".py");
  const blocks = [...source.matchAll(isPython ? PYTHON_DOC : BLOCK)].map(({ index, 1: text = "" }) => ({
    line: source.slice(0, index).split("\n").length,
    text: text.replace(/^\s*\* ?/gm, "").trim(),
  }));
  return [...blocks, ...lineComments(source, isPython ? PYTHON_LINE : LINE)];
}

/** Comments on lines of their own that follow each other are one text. */
function lineComments(source: string, pattern: RegExp): readonly Comment[] {
  const comments: { line: number; text: string }[] = [];
  let isOpen = false;
  for (const [index, line] of source.split("\n").entries()) {
    const [whole, text] = pattern.exec(line) ?? [];
    const isAlone = whole !== undefined && line.trim() === whole.trim();
    const last = comments.at(-1);
    if (text !== undefined && isOpen && isAlone && last !== undefined) last.text += `\n${text}`;
    else if (text !== undefined) comments.push({ line: index + 1, text });
    isOpen = isAlone;
  }
  return comments;
}
