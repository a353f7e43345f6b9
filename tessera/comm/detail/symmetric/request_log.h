// What ranks must ask for alike, kept as a number and a digest of all requests and the latest few in words: a rank's
// log goes to its peers at a rendezvous, where every rank finds who differs in what.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace tessera::comm::detail {

/// One request.
struct SymmetricRequest {
  /// What was asked for.
  enum class Kind : std::uint64_t {
    kPool,      ///< a pool of `nbytes`, with `number` channels
    kAllocate,  ///< `nbytes`
    kFree,      ///< the buffer at offset `number`
    kRegister,  ///< `nbytes`, which were not known
    kFind,      ///< `nbytes`, known since registration `number`
    kForget,    ///< of `nbytes`, the registration `number`
  };
  Kind kind = Kind::kAllocate;  ///< what
  std::uint64_t nbytes = 0;     ///< see Kind
  std::uint64_t number = 0;     ///< see Kind
  /// The same.
  friend bool operator==(const SymmetricRequest&, const SymmetricRequest&) = default;
};
/// "allocate(4096)", ...
std::string text_of(const SymmetricRequest& request);

/// A rank's requests, as they go to its peers. Plain bytes. Not thread-safe.
struct RequestLog {
  static constexpr std::uint64_t kRecent = 16;

  std::uint64_t count = 0;                ///< requests so far
  std::uint64_t digest = 0;               ///< of all of them; 0: there are none
  SymmetricRequest recent[kRecent] = {};  ///< request i, counted from 0, at i % kRecent

  void add(const SymmetricRequest& request);
};

/// Empty where all ranks asked for the same; else the first request known to differ, and who asked for what: "request 3
/// differs: ranks 0 and 2 asked for allocate(4096), rank 1 for allocate(8192)". The same text from the same logs.
std::string difference(std::span<const RequestLog> logs);

}  // namespace tessera::comm::detail
