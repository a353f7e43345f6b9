#include "tessera/comm/detail/world_state.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "tessera/base/env.h"
#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/base/rank.h"
#include "tessera/comm/detail/symmetric/registry.h"
#include "tessera/comm/store/memory_store.h"
#include "tessera/comm/store/prefix_store.h"
#include "tessera/device/device.h"

namespace tessera::comm {
namespace {

// Filled before main; read by all threads afterwards.
std::vector<BackendInfo>& backends() {
  static std::vector<BackendInfo> all;
  return all;
}

}  // namespace

bool Capabilities::supports(const device::Device& device) const {
  return std::ranges::find(device_kinds, std::string_view(device.properties().kind)) != device_kinds.end();
}

BackendRegistration::BackendRegistration(const BackendInfo& info) {
  if (std::ranges::find(backends(), info.name, &BackendInfo::name) != backends().end()) {
    // An exception before main cannot be caught.
    std::fprintf(stderr, "tessera: backend '%s' is registered twice\n", std::string(info.name).c_str());
    std::abort();
  }
  backends().push_back(info);
}

std::vector<BackendInfo> all_backends() {
  std::vector<BackendInfo> all = backends();
  std::ranges::sort(all, {}, &BackendInfo::name);
  return all;
}

namespace detail {
namespace {

constexpr const char* kAborted = "aborted";  // key of the store: why a rank aborted all groups

// Returns the named backend, or the preferred usable one of memory of this kind. Backends of lower preference are not
// queried, since some load a library to answer.
BackendInfo choose(std::string_view name, const std::string& device_kind, const ConnectRequest& request) {
  std::string reasons;
  std::vector<BackendInfo> candidates = all_backends();
  std::ranges::stable_sort(candidates, std::greater<>(), &BackendInfo::preference);
  for (const BackendInfo& backend : candidates) {
    if (!name.empty() && backend.name != name) continue;
    const auto& kinds = backend.capabilities.device_kinds;
    if (name.empty() && !device_kind.empty() && std::ranges::find(kinds, device_kind) == kinds.end()) continue;
    const std::string why_not = backend.why_not(request);
    if (why_not.empty()) return backend;
    reasons += std::string(reasons.empty() ? "" : "; ") + std::string(backend.name) + ": " + why_not;
  }
  TESSERA_CHECK_AS(NotSupported, !reasons.empty() || !name.empty(), "no backend of this build communicates memory of ",
                   device_kind);
  if (reasons.empty()) {
    for (const BackendInfo& backend : all_backends()) reasons += " " + std::string(backend.name);
    TESSERA_THROW(InvalidArgument, "unknown backend '", name, "'; available backends:", reasons);
  }
  TESSERA_THROW(NotSupported, "no backend can connect ranks ", text_of(request.ranks), ": ", reasons);
}

}  // namespace

std::shared_ptr<std::byte> SimulatedWorld::memory(const std::string& name, std::size_t nbytes,
                                                  const std::function<void(std::byte*)>& initialise) {
  return shared<std::byte>(name, [&] {
    static constexpr std::align_val_t kPage{4096};
    std::shared_ptr<std::byte> made(static_cast<std::byte*>(::operator new(nbytes, kPage)),
                                    [](std::byte* memory) { ::operator delete(memory, kPage); });
    initialise(made.get());
    return made;
  });
}

WorldState& WorldState::current() {
  return current_rank()->part<WorldState>([] {
    return std::make_shared<WorldState>(std::make_shared<MemoryStore>(), std::make_shared<SimulatedWorld>(nullptr));
  });
}

std::shared_ptr<Communicator> WorldState::communicator(const std::vector<Rank>& ranks, std::string_view backend,
                                                       const std::string& device_kind, std::uint64_t generation,
                                                       std::string_view parent, std::chrono::nanoseconds timeout,
                                                       std::string& chosen) {
  const auto self = std::ranges::find(ranks, current_place().rank);
  const std::string within = parent.empty() ? "" : " in " + std::string(parent);
  ConnectRequest request{.name = text_of(ranks) + within + (generation == 0 ? "" : " #" + std::to_string(generation)),
                         .ranks = ranks,
                         .rank = static_cast<int>(self - ranks.begin()),
                         .timeout = timeout};
  // Groups that survivors create after a failure work on.
  if (processes_ != nullptr && generation == 0) request.why_over = [this] { return why_aborted(); };
  const BackendInfo info = choose(is_alone() && backend.empty() ? backend_ : backend, device_kind, request);
  chosen = info.name;
  const std::string key = chosen + " " + request.name;
  request.store = std::make_shared<PrefixStore>("communicator " + key, store_);
  std::shared_ptr<Connection> connection;
  {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Connection>& found = connections_[key];
    if (found == nullptr) found = std::make_shared<Connection>();
    connection = found;
  }
  const std::lock_guard lock(connection->mutex);
  if (connection->communicator == nullptr) {
    connection->communicator = info.connect(request);
    if (env::comm_check() && !connection->communicator->capabilities().has_checked_mode) {
      log::warn("TESSERA_COMM_CHECK: ranks ", text_of(ranks), " are not checked: backend ", chosen,
                " has no checked mode");
    }
  }
  ++connection->groups;
  return connection->communicator;
}

bool WorldState::is_shared(const Communicator& communicator) {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(connections_, [&](const auto& entry) {
    const std::unique_lock connected(entry.second->mutex, std::try_to_lock);
    return connected && entry.second->communicator.get() == &communicator && entry.second->groups > 1;
  });
}

std::shared_ptr<SymmetricRegistry> WorldState::symmetric(const Communicator& communicator) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<SymmetricRegistry>& registry = symmetric_[&communicator];
  if (registry == nullptr) registry = std::make_shared<SymmetricRegistry>();
  return registry;
}

void WorldState::leave() noexcept {
  if (!owner_.is_this()) return;
  // If another thread is connecting, peers notice the end of the process instead.
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  for (const auto& [key, connection] : connections_) {
    const std::unique_lock connected(connection->mutex, std::try_to_lock);
    if (connected && connection->communicator != nullptr) connection->communicator->leave();
  }
}

void WorldState::abort(std::string_view reason) noexcept {
  if (!owner_.is_this()) return;
  try {
    (void)store_->compare_set(kAborted, std::nullopt,
                              tessera::detail::concat("rank ", current_place().rank, " aborted all groups: ", reason));
  } catch (const std::exception& error) {
    log::warn("abort: ranks that create groups are not informed: ", error.what());
  }
  const std::lock_guard lock(mutex_);
  for (const auto& [key, connection] : connections_) {
    const std::unique_lock connected(connection->mutex, std::try_to_lock);
    if (connected && connection->communicator != nullptr) connection->communicator->abort(reason);
  }
}

std::string WorldState::why_aborted() const noexcept {
  try {
    return store_->find(kAborted).value_or("");
  } catch (const std::exception&) {
    return "";  // the store ended with its host rank, whose end is noticed
  }
}

void WorldState::let_go() {
  if (!owner_.is_this()) return;
  std::map<std::string, std::shared_ptr<Connection>> connections;
  std::map<const Communicator*, std::shared_ptr<SymmetricRegistry>> symmetric;
  const std::lock_guard lock(mutex_);
  connections.swap(connections_);
  symmetric.swap(symmetric_);
}

std::string text_of(const std::vector<Rank>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end].value() == ranks[end - 1].value() + 1) ++end;
    text += (text.empty() ? "" : ",") + to_string(ranks[i]);
    if (end > i + 1) text += "-" + to_string(ranks[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace detail
}  // namespace tessera::comm
