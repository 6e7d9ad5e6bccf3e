/**
 * Paths of the KServe V2 protocol. A server compares them as sent, so only characters that would change the path are
 * percent-encoded (RFC 3986, section 3.3).
 */

/** Characters that `encodeURIComponent` encodes although a path may contain them (RFC 3986, 3.3: pchar). */
const ALLOWED_IN_PATH = /%(?:24|26|2B|2C|3A|3B|3D|40)/g;

/** @throws RangeError for a name or version that no path can hold */
export function modelPath(name: string, version?: string | number): string {
  const model = `/v2/models/${segment(name)}`;
  if (version === undefined) return model;
  if (!/^\d+$/.test(String(version))) throw new RangeError(`model version '${version}' is no number`);
  return `${model}/versions/${version}`;
}

export function repositoryPath(name: string, action: "load" | "unload"): string {
  return `/v2/repository/models/${segment(name)}/${action}`;
}

/** fetch removes the segments "." and ".." (RFC 3986, 5.2.4). */
function segment(name: string): string {
  if (name === "" || name === "." || name === "..") throw new RangeError(`'${name}' is no model name`);
  return encodeURIComponent(name).replace(ALLOWED_IN_PATH, decodeURIComponent);
}
