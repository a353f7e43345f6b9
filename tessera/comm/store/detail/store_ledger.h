// Counts the bytes that a store holds for its clients, and rejects requests beyond a bound. A key belongs to the client
// that last set it, even after that client has left. A pending wait is charged like a value. If the store is full, the
// error names the label with the most bytes: a rank that reconnects is a new client with the same label.
//
//   ledger.check_key_fits(client, "key", value.size());   // throws before anything is changed
//   table.set("key", value);
//   ledger.note_key(client, "key", value.size());
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tessera::comm::detail {

/// Bounds of a store, in bytes of keys, values and the memory to keep them.
struct StoreLimits {
  std::uint64_t client_bytes = std::uint64_t{64} << 20;  ///< per client
  std::uint64_t total_bytes = std::uint64_t{256} << 20;  ///< for all clients
};

/// The byte counts. Not thread-safe.
class StoreLedger {
 public:
  explicit StoreLedger(StoreLimits limits) : limits_(limits) {}

  /// Adds a client; `label` and `name` are for errors.
  std::uint64_t open(std::string label, std::string name);
  /// Notes that the client has left. It stays in the counts while the store holds its keys.
  void close(std::uint64_t client);

  /// Throws InvalidArgument, which names the client and the bound, if a value of this size does not fit.
  void check_key_fits(std::uint64_t client, std::string_view key, std::size_t value_bytes) const;
  /// Notes that the client has set a key to a value of this size.
  void note_key(std::uint64_t client, std::string_view key, std::size_t value_bytes);
  /// Notes that the key was removed.
  void forget_key(std::string_view key);
  /// Charges a wait; throws like check_key_fits().
  void hold(std::uint64_t client, std::uint64_t nbytes);
  /// Releases the charge of a wait that has ended.
  void release(std::uint64_t client, std::uint64_t nbytes);

  /// Returns the bytes that are charged to the store.
  [[nodiscard]] std::uint64_t total() const { return total_; }
  /// Returns the number of clients in the counts, including those that have left.
  [[nodiscard]] std::size_t clients() const { return clients_.size(); }

 private:
  struct Client {
    std::string label;
    std::string name;
    std::uint64_t nbytes = 0;
    bool is_gone = false;
  };
  struct Charge {
    std::uint64_t client = 0;
    std::uint64_t nbytes = 0;
  };
  void check(std::uint64_t client, const Charge& replaced, std::uint64_t nbytes) const;
  [[nodiscard]] std::string largest_holder() const;
  void take_off(const Charge& charge);

  StoreLimits limits_;
  std::uint64_t next_ = 1;
  std::uint64_t total_ = 0;
  std::unordered_map<std::uint64_t, Client> clients_;
  std::unordered_map<std::string, Charge> keys_;
};

}  // namespace tessera::comm::detail
