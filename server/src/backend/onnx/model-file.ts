/** Finds the file of a model version and makes sure that it names no other file it should not. */
import { stat } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import { checkExternalData, ExternalDataError } from "../../formats/onnx/external-data.ts";
import { OnnxFormatError } from "../../formats/onnx/model.ts";
import type { ModelSource } from "../backend.ts";

const INVALID_PROTOBUF = 7;

/** Path of a model that is safe to load. @throws ServerError when there is none */
export async function findModelFile(source: ModelSource, defaultFile: string): Promise<string> {
  const path = await locateModelFile(source, defaultFile);
  try {
    await checkExternalData(path, { allowsHardLinks: source.isFetched === true });
  } catch (error) {
    throw refusal(path, error, source);
  }
  return path;
}

/** Without a look inside. @throws ServerError when there is none */
export async function locateModelFile(
  { name, config, versionFolder }: ModelSource,
  defaultFile: string,
): Promise<string> {
  const fileName = config.default_model_filename === "" ? defaultFile : config.default_model_filename;
  if (isAbsolute(fileName) || fileName.split(/[/\\]/).includes("..") || fileName.includes("\0")) {
    throw invalidArgument(
      `default_model_filename of model '${name}' must be a path inside the version's folder, got '${fileName}'`,
    );
  }
  const given = join(versionFolder, fileName);
  const found = await stat(given).catch(() => undefined);
  // A folder holds a model together with its external data.
  const path = found?.isDirectory() === true ? join(given, defaultFile) : given;
  const isFile = path === given ? found?.isFile() : (await stat(path).catch(() => undefined))?.isFile();
  if (isFile !== true) throw new ServerError("unavailable", `unable to find '${path}' for model instance '${name}'`);
  if (path.endsWith(".ort")) {
    throw new ServerError(
      "unsupported",
      `model '${name}': files in ORT format are not supported, expected ONNX, got '${path}'`,
    );
  }
  return path;
}

function refusal(path: string, error: unknown, { name, log }: ModelSource): ServerError {
  if (error instanceof ExternalDataError) {
    return new ServerError("invalid_argument", `unable to load model '${name}', ${error.message}`, { cause: error });
  }
  if (error instanceof OnnxFormatError) {
    log.warn("onnx_model_file", `${path}: ${error.message}`);
    const text = `onnx runtime error ${INVALID_PROTOBUF}: Load model from ${path} failed:Protobuf parsing failed.`;
    return new ServerError("internal", text, { cause: error });
  }
  const reason = error instanceof Error ? error.message : String(error);
  return new ServerError("unavailable", `unable to read '${path}' for model instance '${name}': ${reason}`, {
    cause: error,
  });
}
