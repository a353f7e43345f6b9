#include "tessera/comm/store/detail/store_ledger.h"

#include <algorithm>
#include <map>

#include "tessera/base/error.h"

namespace tessera::comm::detail {
namespace {

// Bytes of a key besides its value: it is stored twice, in nodes of two maps.
constexpr std::uint64_t kEntryBytes = 256;

std::uint64_t cost_of(std::string_view key, std::size_t value_bytes) {
  return kEntryBytes + 2 * key.size() + value_bytes;
}

}  // namespace

std::uint64_t StoreLedger::open(std::string label, std::string name) {
  const std::uint64_t client = next_++;
  clients_.emplace(client, Client{.label = std::move(label), .name = std::move(name)});
  return client;
}

void StoreLedger::close(std::uint64_t client) {
  const auto found = clients_.find(client);
  if (found == clients_.end()) return;
  found->second.is_gone = true;
  if (found->second.nbytes == 0) clients_.erase(found);
}

void StoreLedger::check(std::uint64_t client, const Charge& replaced, std::uint64_t nbytes) const {
  const Client& who = clients_.at(client);
  const std::uint64_t own = who.nbytes - (replaced.client == client ? replaced.nbytes : 0) + nbytes;
  TESSERA_CHECK(own <= limits_.client_bytes, "store: client ", who.name, " may hold at most ", limits_.client_bytes,
                " bytes, got ", own, "; remove keys, or set TESSERA_STORE_CLIENT_BYTES where the store is hosted");
  const std::uint64_t all = total_ - replaced.nbytes + nbytes;
  TESSERA_CHECK(all <= limits_.total_bytes, "store: all clients may hold at most ", limits_.total_bytes, " bytes, got ",
                all, " with a request of client ", who.name, "; ", largest_holder(),
                "; remove keys, or set TESSERA_STORE_BYTES where the store is hosted");
}

std::string StoreLedger::largest_holder() const {
  struct Holding {
    std::uint64_t nbytes = 0;
    int connections = 0;
    int closed = 0;
  };
  std::map<std::string, Holding> by_label;
  for (const auto& [id, client] : clients_) {
    if (client.nbytes == 0) continue;
    Holding& holding = by_label[client.label];
    holding.nbytes += client.nbytes;
    ++holding.connections;
    holding.closed += client.is_gone ? 1 : 0;
  }
  const auto most = std::max_element(by_label.begin(), by_label.end(),
                                     [](const auto& a, const auto& b) { return a.second.nbytes < b.second.nbytes; });
  if (most == by_label.end()) return "no client holds bytes yet";
  const auto& [label, holding] = *most;
  return tessera::detail::concat("client ", label, " holds the most, ", holding.nbytes, " bytes over ",
                                 holding.connections, " connections (", holding.closed, " closed)");
}

void StoreLedger::check_key_fits(std::uint64_t client, std::string_view key, std::size_t value_bytes) const {
  const auto found = keys_.find(std::string(key));
  check(client, found == keys_.end() ? Charge{} : found->second, cost_of(key, value_bytes));
}

void StoreLedger::note_key(std::uint64_t client, std::string_view key, std::size_t value_bytes) {
  Charge& charge = keys_[std::string(key)];
  take_off(charge);
  charge = {client, cost_of(key, value_bytes)};
  total_ += charge.nbytes;
  clients_.at(client).nbytes += charge.nbytes;
}

void StoreLedger::forget_key(std::string_view key) {
  const auto found = keys_.find(std::string(key));
  if (found == keys_.end()) return;
  take_off(found->second);
  keys_.erase(found);
}

void StoreLedger::hold(std::uint64_t client, std::uint64_t nbytes) {
  check(client, {}, nbytes);
  total_ += nbytes;
  clients_.at(client).nbytes += nbytes;
}

void StoreLedger::release(std::uint64_t client, std::uint64_t nbytes) { take_off({client, nbytes}); }

void StoreLedger::take_off(const Charge& charge) {
  total_ -= charge.nbytes;
  const auto owner = clients_.find(charge.client);
  if (owner == clients_.end()) return;
  owner->second.nbytes -= charge.nbytes;
  if (owner->second.is_gone && owner->second.nbytes == 0) clients_.erase(owner);
}

}  // namespace tessera::comm::detail
