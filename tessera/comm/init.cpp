#include <cstdlib>

#include "tessera/base/env.h"
#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/comm/detail/group_hooks.h"
#include "tessera/comm/detail/process_world.h"
#include "tessera/comm/detail/world_secret.h"
#include "tessera/comm/detail/world_state.h"
#include "tessera/comm/launch_environment.h"
#include "tessera/comm/store/open_store.h"
#include "tessera/comm/store/prefix_store.h"
#include "tessera/comm/store/tcp_store_server.h"
#include "tessera/comm/world.h"

namespace tessera {
namespace {

using comm::StoreAddress;

// Returns the settings of the launcher, overridden by those of the caller.
comm::LaunchEnvironment place_from(const InitOptions& options) {
  comm::EnvironmentMap environment = comm::process_environment();
  TESSERA_CHECK(options.rank.has_value() == options.world_size.has_value(),
                "init: needs both rank and world_size, or neither");
  if (options.rank) {
    environment["RANK"] = std::to_string(*options.rank);
    environment["WORLD_SIZE"] = std::to_string(*options.world_size);
  }
  const bool is_told = !options.store.empty() && environment["TESSERA_STORE"] != options.store;
  if (is_told) environment["TESSERA_STORE"] = options.store;
  comm::LaunchEnvironment read = comm::read_launch_environment(environment);
  // No other process hosts an address that the caller chose.
  if (is_told && comm::parse_store_address(options.store).kind == StoreAddress::Kind::kTcp) {
    read.is_rank_hosted = true;
    read.hosts_store = read.place.rank == Rank(0);
  }
  return read;
}

// The store of the world, and its server if this rank hosts it.
struct WorldStore {
  std::shared_ptr<comm::TcpStoreServer> server;
  std::shared_ptr<comm::Store> store;
};

// The server listens only on the address that the ranks were given.
std::shared_ptr<comm::TcpStoreServer> host_store(const comm::LaunchEnvironment& launched, const std::string& secret) {
  const StoreAddress address = comm::parse_store_address(launched.store);
  const std::string bind = env::store_bind();
  auto server =
      std::make_shared<comm::TcpStoreServer>(comm::TcpStoreServerOptions{.host = bind.empty() ? address.host : bind,
                                                                         .port = address.port,
                                                                         .secret = secret,
                                                                         .allow_no_secret = launched.is_insecure});
  const RankPlace& place = launched.place;
  TESSERA_CHECK(place.local_world_size == place.world_size || !server->is_loopback(), "init: ", launched.store,
                " must be an address that other machines reach, but is ", server->address(), " on the machine of rank ",
                place.rank, "; set MASTER_ADDR to its address on the network, or TESSERA_STORE_BIND to the one to ",
                "listen on");
  return server;
}

WorldStore open_world_store(const comm::LaunchEnvironment& launched, std::chrono::nanoseconds timeout) {
  WorldStore opened;
  const std::string secret = comm::detail::world_secret(launched, comm::detail::user_secret_directory());
  if (launched.hosts_store) opened.server = host_store(launched, secret);
  opened.store = comm::open_store(launched.store, secret, timeout, "rank " + to_string(launched.place.rank));
  return opened;
}

bool is_same(const RankPlace& a, const RankPlace& b) {
  return a.rank == b.rank && a.world_size == b.world_size && a.local_rank == b.local_rank &&
         a.local_world_size == b.local_world_size;
}

}  // namespace

int rank() { return current_place().rank.value(); }
int world_size() { return current_place().world_size; }

void init(const InitOptions& options) {
  const comm::LaunchEnvironment launched = place_from(options);
  const RankPlace& place = launched.place;
  const RankPlace& current = current_place();
  TESSERA_CHECK(current.world_size == 1 || is_same(place, current), "init: this process is already rank ", current.rank,
                " of ", current.world_size, " and cannot be rank ", place.rank, " of ", place.world_size);
  if (is_same(place, current) && (place.world_size > 1 || place.run_dir == current.run_dir)) return;
  if (place.world_size == 1) return set_process_place(place);

  // First, so that the observer sees everything below and ends after it.
  auto* observer = comm::detail::group_observer();
  if (observer != nullptr) observer->rank_opens(place, /*is_process=*/true);
  const WorldStore opened = open_world_store(launched, options.timeout);
  set_process_place(place);
  // The rank of a process is never destroyed, so this informs peers of a regular exit. The observer first notes how the
  // rank ends, since peers read that after they learn that it has left.
  static comm::detail::WorldState* of_process = nullptr;
  static const int kAtExit = std::atexit([] {
    if (of_process != nullptr) of_process->leave();
  });
  (void)kAtExit;
  if (observer != nullptr) observer->rank_is_placed();
  const std::shared_ptr<RankContext> rank = current_rank();
  struct Hosted {
    std::shared_ptr<comm::TcpStoreServer> server;
  };
  // Created first, destroyed last.
  rank->part<Hosted>([&] { return std::make_shared<Hosted>(Hosted{opened.server}); });
  rank->part<comm::detail::WorldState>([&] {
    auto processes = std::make_shared<comm::detail::ProcessWorld>(
        std::make_shared<comm::PrefixStore>("world", opened.store), place.rank);
    return std::make_shared<comm::detail::WorldState>(opened.store, nullptr, processes, options.backend);
  });
  comm::detail::WorldState* const world = &comm::detail::WorldState::current();
  of_process = world;  // has no effect in a forked child
  comm::detail::observed("", comm::OnHang::kRaise,
                         [&] { world->processes()->meet(place.world_size, options.timeout); });
}

}  // namespace tessera
