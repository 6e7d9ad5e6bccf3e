/** Routes of OpenAI's files. Source: OpenAI's API reference, "Files". */
import { ApiError, invalidParameter, invalidRequest, missingParameter } from "../../api/api-error.ts";
import { boundaryOf, readForm } from "../../api/multipart.ts";
import { type ApiReply, type ApiRoute, actionRoute, getRoute, type RouteCall } from "../../api/route.ts";
import { integer, type JsonObject, type JsonSchema, oneOf } from "../../api/schema.ts";
import { jsonReply } from "../../http/http-reply.ts";
import { nowSeconds } from "../openai-context.ts";
import { pageOf } from "../page.ts";
import { ownerOf } from "../responses/responses-context.ts";
import type { FileStore, NewFile, StoredFile, Upload } from "./file-store.ts";

const ONE = "/v1/files/{id}";
const PURPOSE = oneOf("batch", "user_data", "assistants", "fine-tune", "vision", "evals");
/** OpenAI's bounds of `expires_after[seconds]`, and its default for batches. */
const LIFETIME = integer(3600, 2_592_000);
export const BATCH_LIFETIME_S = 2_592_000;
const LIFETIME_FIELD = "expires_after[seconds]";
const UPLOAD_FORM: JsonSchema = {
  type: "object",
  properties: {
    file: { type: "string", contentMediaType: "application/octet-stream" },
    purpose: PURPOSE.json,
    [LIFETIME_FIELD]: LIFETIME.json,
  },
  required: ["file", "purpose"],
};
const MAX_LIST = 10_000;
const MAX_FIELD_BYTES = 4096;
const MAX_NAME_LENGTH = 255;

/** `open` is undefined where the server has no folder for files. */
export function filesRoutes(open: Promise<FileStore> | undefined): readonly ApiRoute[] {
  const withStore =
    (handle: (store: FileStore, route: RouteCall) => Promise<ApiReply>) =>
    async (route: RouteCall): Promise<ApiReply> =>
      handle(await expectStore(open), route);
  return [
    { ...actionRoute("/v1/files", "inference", "Upload a file", withStore(createFile)), form: UPLOAD_FORM },
    getRoute("/v1/files", "inference", "List the files", withStore(listFiles)),
    getRoute(
      ONE,
      "inference",
      "Describe a file",
      withStore(async (store, route) => jsonReply(fileObject(expectFile(store, route)))),
    ),
    getRoute(`${ONE}/content`, "inference", "Content of a file", withStore(readContent)),
    { ...getRoute(ONE, "inference", "Delete a file", withStore(deleteFile)), method: "DELETE" },
  ];
}

/** @throws ApiError where the server has no folder */
export async function expectStore<T>(open: Promise<T> | undefined): Promise<T> {
  if (open !== undefined) return await open;
  const message = "Files and batches are off: this server was started without --openai-files-dir.";
  throw new ApiError({ status: 404, type: "invalid_request_error", code: "files_not_enabled", param: null, message });
}

export function fileObject({ id, bytes, createdAt, expiresAt, fileName, purpose }: StoredFile): JsonObject {
  const expiry = expiresAt === undefined ? {} : { expires_at: expiresAt };
  return {
    id,
    object: "file",
    bytes,
    created_at: createdAt,
    ...expiry,
    filename: fileName,
    purpose,
    status: "processed",
  };
}

async function createFile(store: FileStore, route: RouteCall): Promise<ApiReply> {
  const { call } = route;
  const boundary = boundaryOf(call.header("content-type") ?? "");
  if (boundary === undefined) {
    throw invalidRequest(null, "invalid_content_type", "Expected a body of content type multipart/form-data.");
  }
  const form: UploadForm = { fields: new Map(), upload: undefined, fileName: "" };
  try {
    for await (const part of readForm(call.stream(), boundary)) await readPart(store, form, part);
    if (form.upload === undefined) throw missingParameter("file");
    const facts = { owner: ownerOf(route), fileName: form.fileName, ...readFields(form.fields) };
    const file = await form.upload.commit(facts);
    return jsonReply(fileObject(file));
  } catch (error) {
    await form.upload?.discard();
    throw error;
  }
}

interface UploadForm {
  readonly fields: Map<string, string>;
  upload: Upload | undefined;
  fileName: string;
}

type Part = Parameters<typeof readField>[0] & { readonly fileName: string | undefined };

async function readPart(store: FileStore, form: UploadForm, part: Part): Promise<void> {
  if (part.fileName === undefined) {
    form.fields.set(part.name, await readField(part));
    return;
  }
  if (part.name !== "file" || form.upload !== undefined) {
    throw invalidParameter(part.name, "invalid_value", `Invalid '${part.name}': expected one file, named 'file'.`);
  }
  form.fileName = part.fileName.slice(0, MAX_NAME_LENGTH);
  form.upload = await store.receive(part.content);
}

async function readField(part: {
  readonly name: string;
  readonly content: AsyncIterable<Uint8Array>;
}): Promise<string> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of part.content) {
    size += piece.length;
    if (size > MAX_FIELD_BYTES)
      throw invalidParameter(part.name, "string_above_max_length", `Invalid '${part.name}': too long.`);
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString("utf8");
}

/** @throws ApiError */
function readFields(fields: ReadonlyMap<string, string>): Pick<NewFile, "purpose" | "expiresAt"> {
  const given = fields.get("purpose");
  if (given === undefined) throw missingParameter("purpose");
  const purpose = PURPOSE.read(given, "purpose");
  const seconds = fields.get(LIFETIME_FIELD);
  if (seconds !== undefined) {
    return { purpose, expiresAt: nowSeconds() + LIFETIME.read(Number(seconds), "expires_after.seconds") };
  }
  return purpose === "batch" ? { purpose, expiresAt: nowSeconds() + BATCH_LIFETIME_S } : { purpose };
}

async function listFiles(store: FileStore, route: RouteCall): Promise<ApiReply> {
  const query = new URLSearchParams(route.call.query);
  const purpose = query.get("purpose");
  const files = store.list(ownerOf(route)).filter((file) => purpose === null || file.purpose === purpose);
  const ordered = query.get("order") === "asc" ? files.toReversed() : files;
  return jsonReply(pageOf(ordered.map(fileObject), query, { max: MAX_LIST, usual: MAX_LIST }));
}

async function readContent(store: FileStore, route: RouteCall): Promise<ApiReply> {
  const file = expectFile(store, route);
  return { status: 200, contentType: "application/octet-stream", chunks: store.read(file) };
}

async function deleteFile(store: FileStore, route: RouteCall): Promise<ApiReply> {
  const file = expectFile(store, route);
  await store.delete(file);
  return jsonReply({ id: file.id, object: "file", deleted: true });
}

function expectFile(store: FileStore, route: RouteCall): StoredFile {
  const id = route.params.get("id") ?? "";
  const file = store.find(ownerOf(route), id);
  if (file !== undefined) return file;
  throw new ApiError({
    status: 404,
    type: "invalid_request_error",
    code: null,
    param: "id",
    message: `No such File object: ${id}`,
  });
}
