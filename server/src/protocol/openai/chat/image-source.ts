/** Images of a request: data URLs (RFC 2397) as bytes, others as they came, for the model that may fetch them. */
import { MAX_IMAGE_BYTES, MAX_IMAGE_URL_CHARS } from "../../../core/limits.ts";
import { invalidParameter } from "../../api/api-error.ts";

const DATA_URL = /^data:[\w.+/-]*(?:;[\w=.+-]+)*?(;base64)?,/i;
const WEB_URL = /^https?:\/\//i;
const BASE64 = /^[A-Za-z0-9+/_-]*={0,2}$/;

/** @throws ApiError invalid_image_url for anything that is no image reference */
export function readImage(url: string, path: string): Uint8Array | string {
  if (WEB_URL.test(url)) {
    if (url.length <= MAX_IMAGE_URL_CHARS) return url;
    throw refused(path, `the URL has ${url.length} characters, expected at most ${MAX_IMAGE_URL_CHARS}`);
  }
  const head = DATA_URL.exec(url.slice(0, MAX_IMAGE_URL_CHARS));
  if (head === null || head[1] === undefined) {
    throw refused(path, "expected a base64-encoded data URL, or an http or https URL");
  }
  const text = url.slice(head[0].length);
  if (text.length > MAX_IMAGE_BYTES * 1.4) throw refused(path, `the image has more than ${MAX_IMAGE_BYTES} bytes`);
  if (text === "" || !BASE64.test(text)) throw refused(path, "the data is not valid base64");
  return Buffer.from(text, "base64");
}

function refused(path: string, why: string): Error {
  return invalidParameter(path, "invalid_image_url", `Invalid '${path}': ${why}.`);
}
