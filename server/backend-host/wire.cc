/* The socket to the server: whole messages in both directions. */
#include "wire.h"

#include <cerrno>
#include <unistd.h>

namespace host {

void Connection::Send(Writer& message) {
  const std::vector<uint8_t>& bytes = message.Finish();
  std::lock_guard<std::mutex> lock(sending_);
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t count = write(descriptor_, bytes.data() + sent, bytes.size() - sent);
    if (count > 0) {
      sent += static_cast<size_t>(count);
    } else if (errno != EINTR) {
      _exit(0);
    }
  }
}

bool Connection::Receive(std::vector<uint8_t>* body) {
  uint32_t size = 0;
  if (!ReadAll(reinterpret_cast<uint8_t*>(&size), sizeof size)) return false;
  body->resize(size);
  return ReadAll(body->data(), size);
}

bool Connection::ReadAll(uint8_t* target, size_t size) {
  for (size_t filled = 0; filled < size;) {
    const ssize_t count = read(descriptor_, target + filled, size - filled);
    if (count > 0) {
      filled += static_cast<size_t>(count);
    } else if (count == 0 || errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace host
