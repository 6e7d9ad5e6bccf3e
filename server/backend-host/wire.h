/*
 * Messages between the server and the host: little-endian fields, lengths in front. The counterpart is
 * server/src/backend/python/wire-codec.ts, and the two change together. Knows no message and no API.
 */
#pragma once

#include <cstdint>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

namespace host {

/* Tensor data starts at a multiple of this in a message. */
constexpr size_t DATA_ALIGNMENT = 8;
/* Location of a tensor's data: after its header, or in shared memory. */
constexpr uint8_t INLINE = 0;
constexpr uint8_t SHARED = 1;

struct ProtocolError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/* Builds one message. Large tensors are not in it: they lie in shared memory. */
class Writer {
 public:
  explicit Writer(uint8_t kind) : bytes_(sizeof(uint32_t)) { U8(kind); }

  void U8(uint8_t value) { bytes_.push_back(value); }
  void U32(uint32_t value) { Raw(&value, sizeof value); }
  void U64(uint64_t value) { Raw(&value, sizeof value); }
  void I64(int64_t value) { Raw(&value, sizeof value); }
  void F64(double value) { Raw(&value, sizeof value); }
  void String(const std::string& text) {
    U32(static_cast<uint32_t>(text.size()));
    Raw(text.data(), text.size());
  }

  void InlineData(const void* data, size_t size) {
    U8(INLINE);
    U32(static_cast<uint32_t>(size));
    while ((bytes_.size() - sizeof(uint32_t)) % DATA_ALIGNMENT != 0) bytes_.push_back(0);
    Raw(data, size);
  }

  /* The whole message, its length first. */
  const std::vector<uint8_t>& Finish() {
    const uint32_t size = static_cast<uint32_t>(bytes_.size() - sizeof(uint32_t));
    std::memcpy(bytes_.data(), &size, sizeof size);
    return bytes_;
  }

 private:
  void Raw(const void* data, size_t size) {
    const auto* first = static_cast<const uint8_t*>(data);
    bytes_.insert(bytes_.end(), first, first + size);
  }

  std::vector<uint8_t> bytes_;
};

/* Takes the fields of one message out in order. The body must outlive what `Data` returns. */
class Reader {
 public:
  Reader(const uint8_t* body, size_t size) : body_(body), size_(size) {}

  uint8_t U8() { return *Data(1); }
  bool Bool() { return U8() == 1; }
  uint32_t U32() { return Number<uint32_t>(); }
  uint64_t U64() { return Number<uint64_t>(); }
  int64_t I64() { return Number<int64_t>(); }
  double F64() { return Number<double>(); }
  std::string String() {
    const uint32_t size = U32();
    return std::string(reinterpret_cast<const char*>(Data(size)), size);
  }

  std::vector<std::string> Strings() {
    std::vector<std::string> all;
    for (uint32_t left = U32(); left > 0; left--) all.push_back(String());
    return all;
  }

  void Align() { at_ += (DATA_ALIGNMENT - at_ % DATA_ALIGNMENT) % DATA_ALIGNMENT; }

  const uint8_t* Data(size_t size) {
    if (at_ > size_ || size > size_ - at_) throw ProtocolError("a message ends inside a field");
    const uint8_t* data = body_ + at_;
    at_ += size;
    return data;
  }

 private:
  template <typename T>
  T Number() {
    T value;
    std::memcpy(&value, Data(sizeof value), sizeof value);
    return value;
  }

  const uint8_t* body_;
  size_t size_;
  size_t at_ = 0;
};

/* The socket to the server. Any thread sends; one thread receives. */
class Connection {
 public:
  explicit Connection(int descriptor) : descriptor_(descriptor) {}

  /* Ends the process when the server is gone: nobody is left to work for. */
  void Send(Writer& message);

  /* The body of the next message. False: the server has closed the connection. */
  bool Receive(std::vector<uint8_t>* body);

 private:
  bool ReadAll(uint8_t* target, size_t size);

  int descriptor_;
  std::mutex sending_;
};

}  // namespace host
