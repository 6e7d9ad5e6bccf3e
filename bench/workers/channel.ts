/** One end of a channel between processes, as protocol processes in front of one owner need it: `channel.ts owner|front SOCKET`. */
import { connect, createServer, type Socket } from "node:net";
import process from "node:process";

/** A request of `simple`: an id and two tensors of 16 INT32; its answer has as many. */
const MESSAGE_BYTES = 8 + 2 * 64;
/** Requests under way, as with the 16 clients of the measurement. */
const NUM_OPEN = 16;

const [role, path = ""] = process.argv.slice(2);
if (role === "owner") createServer(answerAll).listen(path, () => process.stdout.write("ready\n"));
else askForEver(connect(path));

function answerAll(socket: Socket): void {
  onMessages(socket, (message) => Buffer.from(message));
}

function askForEver(socket: Socket): void {
  let count = 0;
  setInterval(() => process.stdout.write(`${count}\n`), 1000);
  onMessages(socket, (message) => {
    count += 1;
    return Buffer.from(message);
  });
  for (let k = 0; k < NUM_OPEN; k += 1) socket.write(Buffer.alloc(MESSAGE_BYTES, k));
}

function onMessages(socket: Socket, answer: (message: Buffer) => Buffer): void {
  let rest: Buffer = Buffer.alloc(0);
  socket.on("data", (chunk: Buffer) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    socket.cork();
    while (rest.length >= MESSAGE_BYTES) {
      socket.write(answer(rest.subarray(0, MESSAGE_BYTES)));
      rest = rest.subarray(MESSAGE_BYTES);
    }
    socket.uncork();
  });
}
