/**
 * Builds SentencePiece's precompiled character map from a few replacements. Source: the layout in SentencePiece's darts.h;
 * the placing of nodes is by trial.
 */

const VALUE_BIT = 0x8000_0000;
const LEAF = 1 << 8;
const MAX_ENTRIES = 8192;

interface Node {
  readonly children: Map<number, Node>;
  /** Index of the replacement. */
  value?: number;
}

export function charsmapOf(replacements: ReadonlyMap<string, string>): Uint8Array {
  const root: Node = { children: new Map() };
  const texts: Buffer[] = [];
  let end = 0;
  for (const [from, to] of replacements) {
    let node = root;
    for (const byte of Buffer.from(from)) {
      const child = node.children.get(byte) ?? { children: new Map() };
      node.children.set(byte, child);
      node = child;
    }
    node.value = end;
    texts.push(Buffer.from(`${to}\0`));
    end += Buffer.byteLength(to) + 1;
  }
  const trie = Buffer.from(placed(root).buffer);
  const size = Buffer.alloc(4);
  size.writeUInt32LE(trie.byteLength);
  return Buffer.concat([size, trie, ...texts]);
}

/** An entry for each node; its children lie at its base XOR their bytes, its value at the base. */
function placed(root: Node): Uint32Array {
  const entries = new Uint32Array(MAX_ENTRIES);
  const taken = new Set([0]);
  const queue: [node: Node, at: number, label: number][] = [[root, 0, 0]];
  for (const [node, at, label] of queue) {
    const labels = [...node.children.keys(), ...(node.value === undefined ? [] : [0])];
    let base = 1;
    while (labels.some((byte) => taken.has(base ^ byte) || (base ^ byte) === 0)) base++;
    for (const byte of labels) taken.add(base ^ byte);
    if (node.value !== undefined) entries[base] = VALUE_BIT | node.value;
    entries[at] = (((at ^ base) << 10) | (node.value === undefined ? 0 : LEAF) | label) >>> 0;
    for (const [byte, child] of node.children) queue.push([child, base ^ byte, byte]);
  }
  return entries;
}
