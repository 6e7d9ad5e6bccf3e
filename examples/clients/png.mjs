/** Decodes PNG images of 8 bits per channel, RGB or RGBA, without interlace: what the example images are. */
import { inflateSync } from "node:zlib";

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
const CHANNELS_BY_COLOR_TYPE = new Map([
  [2, 3],
  [6, 4],
]);
const MAX_SIDE = 16_384;

/** Gives `{ width, height, channels, data }`, rows from the top, channels interleaved. */
export function decodePng(bytes) {
  const file = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (!file.subarray(0, 8).equals(SIGNATURE)) throw new Error("PNG: wrong signature");
  const header = readHeader(chunks(file, "IHDR")[0]);
  const rowBytes = header.width * header.channels;
  const numBytes = header.height * (rowBytes + 1);
  const filtered = inflateSync(Buffer.concat(chunks(file, "IDAT")), { maxOutputLength: numBytes });
  if (filtered.length !== numBytes) throw new Error(`PNG: ${filtered.length} bytes of pixels, expected ${numBytes}`);
  return { ...header, data: unfilter(filtered, header.height, rowBytes, header.channels) };
}

function chunks(file, wanted) {
  const found = [];
  for (let offset = 8; offset + 12 <= file.length; ) {
    const length = file.readUInt32BE(offset);
    const type = file.toString("latin1", offset + 4, offset + 8);
    if (type === wanted) found.push(file.subarray(offset + 8, offset + 8 + length));
    offset += 12 + length;
  }
  if (found.length === 0) throw new Error(`PNG: no ${wanted} chunk`);
  return found;
}

function readHeader(chunk) {
  const [width, height] = [chunk.readUInt32BE(0), chunk.readUInt32BE(4)];
  const channels = CHANNELS_BY_COLOR_TYPE.get(chunk[9]);
  if (width > MAX_SIDE || height > MAX_SIDE) throw new Error(`PNG: ${width} x ${height}, expected at most ${MAX_SIDE}`);
  if (chunk[8] !== 8 || channels === undefined || chunk[12] !== 0) {
    throw new Error("PNG: expected 8 bits per channel, RGB or RGBA, no interlace");
  }
  return { width, height, channels };
}

/** Each row begins with the number of its filter; filters refer to the pixel to the left and to the row above. */
function unfilter(filtered, height, rowBytes, pixelBytes) {
  const data = new Uint8Array(height * rowBytes);
  for (let y = 0; y < height; y++) {
    const source = y * (rowBytes + 1);
    const target = y * rowBytes;
    const filter = filtered[source];
    for (let x = 0; x < rowBytes; x++) {
      const left = x < pixelBytes ? 0 : data[target + x - pixelBytes];
      const up = y === 0 ? 0 : data[target + x - rowBytes];
      const corner = y === 0 || x < pixelBytes ? 0 : data[target + x - rowBytes - pixelBytes];
      data[target + x] = filtered[source + 1 + x] + predict(filter, left, up, corner);
    }
  }
  return data;
}

function predict(filter, left, up, corner) {
  switch (filter) {
    case 0:
      return 0;
    case 1:
      return left;
    case 2:
      return up;
    case 3:
      return (left + up) >> 1;
    case 4:
      return paeth(left, up, corner);
    default:
      throw new Error(`PNG: unknown filter ${filter}`);
  }
}

function paeth(left, up, corner) {
  const [toLeft, toUp, toCorner] = [Math.abs(up - corner), Math.abs(left - corner), Math.abs(left + up - 2 * corner)];
  if (toLeft <= toUp && toLeft <= toCorner) return left;
  return toUp <= toCorner ? up : corner;
}
