/**
 * A minimal reader of the XML of S3 and Azure list and error responses: elements only; attributes and DTDs are not
 * supported. Source: W3C XML 1.0. Pure.
 */

/** Inner texts of all elements of that name, which must not nest. */
export function xmlElements(xml: string, name: string): string[] {
  const found: string[] = [];
  const open = new RegExp(`<${name}(?:\\s[^<>]*)?(/?)>`, "g");
  const close = `</${name}>`;
  for (let match = open.exec(xml); match !== null; match = open.exec(xml)) {
    if (match[1] === "/") {
      found.push("");
      continue;
    }
    const end = xml.indexOf(close, open.lastIndex);
    if (end === -1) break;
    found.push(xml.slice(open.lastIndex, end));
    open.lastIndex = end + close.length;
  }
  return found;
}

/** Text of the first element of that name, decoded; undefined when there is none. */
export function xmlText(xml: string, name: string): string | undefined {
  const [inner] = xmlElements(xml, name);
  return inner === undefined ? undefined : decoded(inner);
}

const NAMED: Readonly<Record<string, string>> = Object.freeze({ amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" });
const MAX_CODE_POINT = 0x10ffff;

function decoded(text: string): string {
  return text.replaceAll(/&(?:#x([0-9a-f]{1,6})|#(\d{1,7})|([a-z]{1,4}));/gi, (whole, hex, decimal, name) => {
    if (name !== undefined) return NAMED[String(name)] ?? String(whole);
    const code = hex === undefined ? Number(decimal) : Number.parseInt(String(hex), 16);
    return code <= MAX_CODE_POINT ? String.fromCodePoint(code) : String(whole);
  });
}
