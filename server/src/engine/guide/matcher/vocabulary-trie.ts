/**
 * The tokens of a vocabulary as a trie over their bytes, in arrays in preorder: a walk goes forward through memory, and
 * leaves a subtree out with one jump.
 */

export interface VocabularyTrie {
  readonly numNodes: number;
  /** The byte that leads to each node, [numNodes]; node 0 is the root. */
  readonly bytes: Uint8Array;
  /** Bytes on the way to each node, [numNodes]. */
  readonly depths: Uint16Array;
  /** The first node behind each node's subtree, [numNodes]. */
  readonly ends: Int32Array;
  /** Index of each node's first token in `tokens`, [numNodes + 1]. */
  readonly tokenStarts: Int32Array;
  readonly tokens: Int32Array;
}

/** Longer tokens are in no mask. */
const MAX_TOKEN_BYTES = 1024;

/** The arrays under construction. */
interface Growing {
  readonly bytes: number[];
  readonly depths: number[];
  readonly ends: number[];
  readonly tokenStarts: number[];
  readonly tokens: number[];
}

/** @param tokens by id; an empty one is no token */
export function vocabularyTrie(tokens: readonly Uint8Array[]): VocabularyTrie {
  const texts = Array.from(tokens, (token) => Buffer.from(token).toString("latin1"));
  const ids = Array.from(texts, (_, id) => id).filter((id) => isKept(texts[id] ?? ""));
  ids.sort((a, b) => ((texts[a] ?? "") < (texts[b] ?? "") ? -1 : 1));
  const growing = startTrie();
  const open = [0];
  let before = "";
  for (const id of ids) {
    const text = texts[id] ?? "";
    let shared = 0;
    while (shared < before.length && before.charCodeAt(shared) === text.charCodeAt(shared)) shared += 1;
    closeNodes(growing, open, shared);
    for (let i = shared; i < text.length; i++) open.push(addNode(growing, text.charCodeAt(i), i + 1));
    growing.tokens.push(id);
    before = text;
  }
  closeNodes(growing, open, 0);
  return finishTrie(growing);
}

function isKept({ length }: string): boolean {
  return length > 0 && length <= MAX_TOKEN_BYTES;
}

/** The tokens behind some nodes, by the bytes behind their node: what may follow once something has ended there. */
export function suffixTrie(trie: VocabularyTrie, nodes: readonly number[]): VocabularyTrie {
  const growing = startTrie();
  addSuffixes(growing, trie, nodes, 0);
  return finishTrie(growing);
}

function addSuffixes(growing: Growing, trie: VocabularyTrie, nodes: readonly number[], depth: number): void {
  for (const [byte, children] of childrenByByte(trie, nodes)) {
    const node = addNode(growing, byte, depth + 1);
    for (const child of children) addTokens(growing, trie, child);
    addSuffixes(growing, trie, children, depth + 1);
    growing.ends[node] = growing.bytes.length;
  }
}

function childrenByByte(trie: VocabularyTrie, nodes: readonly number[]): ReadonlyMap<number, readonly number[]> {
  const byByte = new Map<number, number[]>();
  for (const node of nodes) {
    const end = trie.ends[node] ?? 0;
    for (let child = node + 1; child < end; child = trie.ends[child] ?? end) {
      const byte = trie.bytes[child] ?? 0;
      const same = byByte.get(byte);
      if (same === undefined) byByte.set(byte, [child]);
      else same.push(child);
    }
  }
  return byByte;
}

function addTokens({ tokens }: Growing, trie: VocabularyTrie, node: number): void {
  const end = trie.tokenStarts[node + 1] ?? 0;
  for (let i = trie.tokenStarts[node] ?? 0; i < end; i++) tokens.push(trie.tokens[i] ?? 0);
}

function startTrie(): Growing {
  return { bytes: [0], depths: [0], ends: [0], tokenStarts: [0], tokens: [] };
}

function addNode({ bytes, depths, ends, tokenStarts, tokens }: Growing, byte: number, depth: number): number {
  bytes.push(byte);
  depths.push(depth);
  ends.push(0);
  tokenStarts.push(tokens.length);
  return bytes.length - 1;
}

/** Ends the open nodes deeper than `depth`. */
function closeNodes({ ends, bytes }: Growing, open: number[], depth: number): void {
  while (open.length > depth + 1) ends[open.pop() ?? 0] = bytes.length;
}

function finishTrie({ bytes, depths, ends, tokenStarts, tokens }: Growing): VocabularyTrie {
  ends[0] = bytes.length;
  return {
    numNodes: bytes.length,
    bytes: Uint8Array.from(bytes),
    depths: Uint16Array.from(depths),
    ends: Int32Array.from(ends),
    tokenStarts: Int32Array.from([...tokenStarts, tokens.length]),
    tokens: Int32Array.from(tokens),
  };
}
