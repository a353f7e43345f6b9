// What goes over the socket of a store. A frame is
//
//   u32 size of the rest | u64 number | u8 code | body            (little-endian)
//
// A request's code is its Verb, a reply's its Status; a reply carries the number of its request, and replies may come
// in another order than requests. A text in a body is u32 size | bytes. The first two frames of a connection are a
// mutual proof of the secret (proof.h):
//
//   kHello u32 version, client's nonce           reply: server's nonce
//   kProof client's proof, client's label        reply: server's proof
//
//   kSet key value | kFind key | kAdd key i64 | kCompareSet key u8 [expected] desired | kRemove key | kKeys prefix
//   kWait u64 nanoseconds, u32 count, keys
//
// A reply's body is a text (kOk of find and compare_set: the value; an error: its message), an i64 (add, remove: 0 or
// 1), or u32 count and texts (keys; kTimeout: the keys without value).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/comm/store/detail/proof.h"
#include "tessera/comm/store/store.h"

namespace tessera::comm::detail {

/// What is asked for.
enum class Verb : std::uint8_t { kHello = 1, kSet, kFind, kAdd, kCompareSet, kWait, kRemove, kKeys, kProof };
/// How it went.
enum class Status : std::uint8_t {
  kOk = 0,
  kNone = 1,     ///< there is no value
  kTimeout = 2,  ///< of a wait
  kInvalid = 3,  ///< InvalidArgument with this message
  kRefused = 4,  ///< the connection is closed after it
};

inline constexpr std::uint32_t kProtocolVersion = 2;
inline constexpr std::size_t kHeadBytes = 4;         ///< the size
inline constexpr std::size_t kLeastBodyBytes = 9;    ///< number and code
inline constexpr std::size_t kMostLabelBytes = 128;  ///< of the name that a client gives itself
/// The largest frame, once let in; before that kMostHelloBytes.
inline constexpr std::size_t kMostFrameBytes = 2 * Store::kMostValueBytes + 4096;
inline constexpr std::size_t kMostHelloBytes = kLeastBodyBytes + 8 + kMostSecretBytes;

/// A request as it was read; texts point into the frame.
struct Request {
  std::uint64_t number = 0;
  Verb verb = Verb::kHello;
  std::string_view key = {};    ///< or prefix, nonce, proof
  std::string_view value = {};  ///< or desired, label
  std::optional<std::string_view> expected = {};
  std::int64_t by = 0;
  std::uint64_t timeout_ns = 0;
  std::uint32_t version = 0;
  std::vector<std::string_view> keys = {};
};

/// A reply as it was read; the body points into the frame.
struct Reply {
  std::uint64_t number = 0;
  Status status = Status::kOk;
  std::string_view body = {};
};

/// Puts a frame together at the end of a buffer; the size is filled in by finish().
class FrameWriter {
 public:
  /// Begins a frame.
  FrameWriter(std::string& out, std::uint64_t number, std::uint8_t code);
  FrameWriter& u8(std::uint8_t value);
  FrameWriter& u32(std::uint32_t value);
  FrameWriter& u64(std::uint64_t value);
  FrameWriter& text(std::string_view value);
  /// Ends it.
  void finish();

 private:
  std::string& out_;
  std::size_t start_;
};

/// Takes a body apart. A read past the end makes it bad for good and gives zeroes.
class BodyReader {
 public:
  explicit BodyReader(std::string_view body) : rest_(body) {}
  std::uint8_t u8();
  std::uint32_t u32();
  std::uint64_t u64();
  std::string_view text();
  /// Whether all reads were good and nothing is left.
  [[nodiscard]] bool is_done() const { return is_good_ && rest_.empty(); }
  /// Whether all reads were good.
  [[nodiscard]] bool is_good() const { return is_good_; }
  /// Bytes not yet read.
  [[nodiscard]] std::size_t left() const { return rest_.size(); }

 private:
  std::string_view take(std::size_t nbytes);
  std::string_view rest_;
  bool is_good_ = true;
};

/// Cuts a stream of bytes, which come in any pieces, into frames.
class FrameReader {
 public:
  /// Frames (without head) of up to `most` bytes.
  explicit FrameReader(std::size_t most) : most_(most) {}
  /// The largest frame from now on.
  void set_most(std::size_t most) { most_ = most; }
  /// Room for at least `nbytes` bytes at the end, to read into; then call filled(). Releases the memory of large frames
  /// once all bytes were taken.
  char* room(std::size_t nbytes);
  /// So many bytes were put there.
  void filled(std::size_t nbytes) { end_ += nbytes; }
  /// The next whole frame without its head, good until the next room(); none: more bytes are needed, or is_bad().
  std::optional<std::string_view> next();
  /// Whether a frame with an impossible size was met; nothing more can be read.
  [[nodiscard]] bool is_bad() const { return is_bad_; }
  /// The bytes that the buffer takes.
  [[nodiscard]] std::size_t capacity() const { return buffer_.capacity(); }

 private:
  static constexpr std::size_t kKeptBytes = std::size_t{256} << 10;  // of a buffer that is empty
  std::size_t most_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool is_bad_ = false;
};

/// A frame as a request; none: it is none. Keys are not checked.
std::optional<Request> parse_request(std::string_view frame);
/// A frame as a reply; none: it is none.
std::optional<Reply> parse_reply(std::string_view frame);
/// Writes a request.
void write_request(std::string& out, const Request& request);

/// Returns the proof that a client sends.
std::string client_proof(std::string_view secret, std::string_view client_nonce, std::string_view server_nonce,
                         std::string_view label);
/// Returns the proof that a server sends.
std::string server_proof(std::string_view secret, std::string_view client_nonce, std::string_view server_nonce,
                         std::string_view label);

}  // namespace tessera::comm::detail
