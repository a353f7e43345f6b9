// The requests that must be equal on all ranks, kept as a count, a digest of all requests, and the latest few requests.
// A rank sends its log to its peers at a rendezvous, where each rank finds the differences.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace tessera::comm::detail {

/// One request.
struct SymmetricRequest {
  /// Kinds of requests.
  enum class Kind : std::uint64_t {
    kPool,      ///< a pool of `nbytes`, with `number` channels
    kAllocate,  ///< an allocation of `nbytes`
    kFree,      ///< the release of the buffer at offset `number`
    kRegister,  ///< a new registration of `nbytes`
    kFind,      ///< `nbytes` that registration `number` already covers
    kForget,    ///< the removal of registration `number`, of `nbytes`
  };
  Kind kind = Kind::kAllocate;
  std::uint64_t nbytes = 0;  ///< see Kind
  std::uint64_t number = 0;  ///< see Kind
  friend bool operator==(const SymmetricRequest&, const SymmetricRequest&) = default;
};
/// Formats a request: "allocate(4096)", ...
std::string text_of(const SymmetricRequest& request);

/// The requests of a rank, as sent to its peers; trivially copyable. Not thread-safe.
struct RequestLog {
  static constexpr std::uint64_t kRecent = 16;

  std::uint64_t count = 0;                ///< number of requests so far
  std::uint64_t digest = 0;               ///< digest of all requests; initially 0
  SymmetricRequest recent[kRecent] = {};  ///< request i, from 0, at index i % kRecent

  void add(const SymmetricRequest& request);
};

/// Describes the first request that is known to differ: "request 3 differs: ranks 0 and 2 requested allocate(4096),
/// rank 1 requested allocate(8192)"; empty if all requests are equal. The text depends only on the logs.
std::string difference(std::span<const RequestLog> logs);

}  // namespace tessera::comm::detail
