// The wire format of a store. A frame is
//
//   u32 size of the rest | u64 number | u8 code | body            (little-endian)
//
// The code of a request is its Verb, that of a reply its Status. A reply carries the number of its request; replies may
// arrive in a different order than requests. A text in a body is u32 size | bytes. The first two frames of a connection
// are a mutual proof of the secret (proof.h):
//
//   kHello u32 version, client's nonce           reply: server's nonce
//   kProof client's proof, client's label        reply: server's proof
//
//   kSet key value | kFind key | kAdd key i64 | kCompareSet key u8 [expected] desired | kRemove key | kKeys prefix
//   kWait u64 nanoseconds, u32 count, keys
//
// The body of a reply is a text (kOk of find and compare_set: the value; an error: its message), an i64 (add, remove: 0
// or 1), or u32 count and texts (keys; kTimeout: the keys without a value).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/comm/store/detail/proof.h"
#include "tessera/comm/store/store.h"

namespace tessera::comm::detail {

/// Kinds of requests.
enum class StoreRequestKind : std::uint8_t {
  kHello = 1,
  kSet,
  kFind,
  kAdd,
  kCompareSet,
  kWait,
  kRemove,
  kKeys,
  kProof
};
/// Results of requests.
enum class Status : std::uint8_t {
  kOk = 0,
  kNone = 1,     ///< the key has no value
  kTimeout = 2,  ///< a wait timed out
  kInvalid = 3,  ///< InvalidArgument with this message
  kRefused = 4,  ///< rejected; the connection is closed afterwards
};

inline constexpr std::uint32_t kProtocolVersion = 2;
inline constexpr std::size_t kHeadBytes = 4;        ///< size field
inline constexpr std::size_t kMinBodyBytes = 9;     ///< number and code
inline constexpr std::size_t kMaxLabelBytes = 128;  ///< maximum length of a client's label
/// Maximum frame size after authentication; before it, kMaxHelloBytes.
inline constexpr std::size_t kMaxFrameBytes = 2 * Store::kMaxValueBytes + 4096;
inline constexpr std::size_t kMaxHelloBytes = kMinBodyBytes + 8 + kMaxSecretBytes;

/// A parsed request; texts point into the frame.
struct StoreRequest {
  std::uint64_t number = 0;
  StoreRequestKind verb = StoreRequestKind::kHello;
  std::string_view key = {};    ///< or prefix, nonce, proof
  std::string_view value = {};  ///< or desired, label
  std::optional<std::string_view> expected = {};
  std::int64_t by = 0;
  std::uint64_t timeout_ns = 0;
  std::uint32_t version = 0;
  std::vector<std::string_view> keys = {};
};

/// A parsed reply; the body points into the frame.
struct Reply {
  std::uint64_t number = 0;
  Status status = Status::kOk;
  std::string_view body = {};
};

/// Appends a frame to a buffer; finish() sets its size.
class FrameWriter {
 public:
  /// Begins a frame.
  FrameWriter(std::string& out, std::uint64_t number, std::uint8_t code);
  FrameWriter& u8(std::uint8_t value);
  FrameWriter& u32(std::uint32_t value);
  FrameWriter& u64(std::uint64_t value);
  FrameWriter& text(std::string_view value);
  /// Ends the frame.
  void finish();

 private:
  std::string& out_;
  std::size_t start_;
};

/// Parses a body. A read past the end sets a permanent error and returns zeros.
class BodyReader {
 public:
  explicit BodyReader(std::string_view body) : rest_(body) {}
  std::uint8_t u8();
  std::uint32_t u32();
  std::uint64_t u64();
  std::string_view text();
  /// Returns true if all reads succeeded and no bytes remain.
  [[nodiscard]] bool is_done() const { return is_good_ && rest_.empty(); }
  /// Returns true if all reads succeeded.
  [[nodiscard]] bool is_good() const { return is_good_; }
  /// Returns the number of bytes not yet read.
  [[nodiscard]] std::size_t left() const { return rest_.size(); }

 private:
  std::string_view take(std::size_t nbytes);
  std::string_view rest_;
  bool is_good_ = true;
};

/// Splits a stream of bytes, which arrive in arbitrary chunks, into frames.
class FrameReader {
 public:
  /// Accepts frames (without size field) of up to `most` bytes.
  explicit FrameReader(std::size_t most) : max_(most) {}
  /// Sets the maximum frame size.
  void set_max(std::size_t most) { max_ = most; }
  /// Returns room for at least `nbytes` bytes at the end, to read into; then call filled(). Releases the memory of
  /// large frames after all bytes were consumed.
  char* room(std::size_t nbytes);
  /// Declares that `nbytes` bytes were written to room().
  void filled(std::size_t nbytes) { end_ += nbytes; }
  /// Returns the next complete frame without its size, valid until the next room(); nullopt if more bytes are needed or
  /// is_bad().
  std::optional<std::string_view> next();
  /// Returns true after a frame with an invalid size; no more frames can be read.
  [[nodiscard]] bool is_bad() const { return is_bad_; }
  /// Returns the size of the buffer.
  [[nodiscard]] std::size_t capacity() const { return buffer_.capacity(); }

 private:
  static constexpr std::size_t kKeptBytes = std::size_t{256} << 10;  // maximum size of an empty buffer
  std::size_t max_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool is_bad_ = false;
};

/// Parses a request; nullopt if the frame is invalid. Keys are not checked.
std::optional<StoreRequest> parse_request(std::string_view frame);
/// Parses a reply; nullopt if the frame is invalid.
std::optional<Reply> parse_reply(std::string_view frame);
/// Writes a request.
void write_request(std::string& out, const StoreRequest& request);

/// Returns the proof that a client sends.
std::string client_proof(std::string_view secret, std::string_view client_nonce, std::string_view server_nonce,
                         std::string_view label);
/// Returns the proof that a server sends.
std::string server_proof(std::string_view secret, std::string_view client_nonce, std::string_view server_nonce,
                         std::string_view label);

}  // namespace tessera::comm::detail
