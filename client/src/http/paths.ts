/**
 * Paths of the KServe V2 protocol. A server compares them as sent, so only characters that would change the path are
 * percent-encoded (RFC 3986, section 3.3).
 */

/** Characters that `encodeURIComponent` encodes although a path may contain them (RFC 3986, 3.3: pchar). */
const ALLOWED_IN_PATH = /%(?:24|26|2B|2C|3A|3B|3D|40)/g;

/** `version` "": the server chooses. @throws RangeError for a name that no path can hold */
export function modelPath(name: string, version: string): string {
  const model = `/v2/models/${segment(name)}`;
  if (version === "") return model;
  return `${model}/versions/${version}`;
}

export function repositoryPath(name: string, action: "load" | "unload"): string {
  return `/v2/repository/models/${segment(name)}/${action}`;
}

/** Settings of the server when no model is given. */
export function tracePath(model: string | undefined): string {
  return model === undefined ? "/v2/trace/setting" : `/v2/models/${segment(model)}/trace/setting`;
}

/** All regions when no name is given. */
export function memoryPath(kind: "system" | "cuda", name: string | undefined, action: string): string {
  const region = name === undefined ? "" : `/region/${segment(name)}`;
  return `/v2/${kind}sharedmemory${region}/${action}`;
}

/** fetch removes the segments "." and ".." (RFC 3986, 5.2.4). */
function segment(name: string): string {
  if (name === "" || name === "." || name === "..") throw new RangeError(`'${name}' can be no name in a path`);
  return encodeURIComponent(name).replace(ALLOWED_IN_PATH, decodeURIComponent);
}
