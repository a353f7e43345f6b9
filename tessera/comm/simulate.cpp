#include <algorithm>
#include <mutex>
#include <optional>

#include "tessera/base/caught.h"
#include "tessera/base/env.h"
#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/base/probe/options.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/base/rank.h"
#include "tessera/comm/detail/world_state.h"
#include "tessera/comm/store/memory_store.h"
#include "tessera/comm/world.h"
#include "tessera/device/device.h"
#include "tessera/device/host/host_device.h"

namespace tessera {

const std::shared_ptr<comm::Store>& comm::store() { return detail::WorldState::current().store(); }

namespace {

using device::host::SeededScheduler;

// A store whose waits let other ranks run.
class SeededStore final : public comm::Store {
 public:
  explicit SeededStore(std::shared_ptr<SeededScheduler> scheduler) : scheduler_(std::move(scheduler)) {}
  void set(std::string_view key, std::string_view value) override { store_.set(key, value); }
  std::optional<std::string> find(std::string_view key) override { return store_.find(key); }
  std::int64_t add(std::string_view key, std::int64_t by) override { return store_.add(key, by); }
  std::optional<std::string> compare_set(std::string_view key, std::optional<std::string_view> expected,
                                         std::string_view desired) override {
    return store_.compare_set(key, expected, desired);
  }
  void wait(std::span<const std::string> keys, std::chrono::nanoseconds timeout) override {
    const auto are_there = [&] {
      return std::ranges::all_of(keys, [&](const std::string& key) { return store_.find(key).has_value(); });
    };
    (void)scheduler_->wait_until(are_there, timeout, "a value of the store");
    store_.wait(keys, std::chrono::nanoseconds(0));  // throws an error with the missing keys
  }
  bool remove(std::string_view key) override { return store_.remove(key); }
  std::vector<std::string> keys(std::string_view prefix) override { return store_.keys(prefix); }
  [[nodiscard]] std::string text() const override { return store_.text(); }

 private:
  comm::MemoryStore store_;
  std::shared_ptr<SeededScheduler> scheduler_;
};

// Returns the record options for ranks of one process. There may be hundreds, so each has less memory than a process
// has, unless the environment sets a size. Returns nullopt if the environment is invalid, which the recorder reports.
std::optional<probe::RecordOptions> record_options() {
  probe::RecordOptions options;
  try {
    options = probe::RecordOptions::from_environment();
  } catch (const InvalidArgument&) {
    return std::nullopt;
  }
  const bool is_set = std::ranges::any_of(env::table(), [](const env::VariableState& entry) {
    return entry.name == "TESSERA_RECORD_BYTES" && entry.is_set;
  });
  if (!is_set) options.nbytes = std::uint64_t{1} << 20;
  return options;
}

// The result of one rank.
struct Ended {
  std::exception_ptr error;
  std::string text;  // text of the error
};

// State that the ranks of one simulation share.
struct Simulation {
  const std::function<void()>& body;
  const SimulateOptions& options;
  int ranks;
  std::shared_ptr<SeededScheduler> scheduler;
  std::shared_ptr<comm::detail::SimulatedWorld> world;
  std::shared_ptr<comm::Store> store = nullptr;
  std::optional<probe::RecordOptions> record = {};
  std::mutex mutex = {};  // protects ended and first
  std::vector<Ended> ended = {};
  int first_failed = -1;

  void run_rank(int rank) {
    // Runs when the rank is destroyed, however it ended.
    struct AtEnd {
      comm::detail::SimulatedWorld& world;
      Rank rank;
      ~AtEnd() { world.note_end(rank); }
    };
    const AtEnd at_end{*world, Rank(rank)};
    live_as(rank);
  }

  void live_as(int rank) {
    const auto context = std::make_shared<RankContext>(RankPlace{.rank = Rank(rank),
                                                                 .world_size = ranks,
                                                                 .local_rank = rank,
                                                                 .local_world_size = ranks,
                                                                 .run_dir = options.run_dir});
    const RankScope scope(context);
    const auto live = [&] {
      if (record) probe::open_recorder(*context, *record);
      context->part<comm::detail::WorldState>([&] { return std::make_shared<comm::detail::WorldState>(store, world); });
      if (scheduler != nullptr) {
        device::host::make_rank_host_device({.mode = device::host::Mode::kSeeded, .scheduler = scheduler});
      }
      body();
      // Waits for the enqueued work. Otherwise that work would be the last owner of the rank, and would free memory
      // that later work uses.
      device::Device::get("host").synchronize();
    };
    // The thread ends in any case. Its peers detect that like any rank failure.
    const auto at_thread_end = [&] {
      try {
        TESSERA_THROW(AbortedError,
                      "simulate: a body must return or throw, got pthread_exit (or a cancellation) in rank ", rank);
      } catch (const std::exception&) {
        fail(rank, std::current_exception());
      }
      finish();
    };
    run_guarded(
        live, [&] { fail(rank, caught_error("simulate: the body")); }, at_thread_end);
    finish();
  }

  void fail(int rank, const std::exception_ptr& error) {
    std::string text = "unknown error";
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& known) {
      text = known.what();
    } catch (...) {
      log::debug("simulate: no memory for an error message");
    }
    {
      const std::lock_guard lock(mutex);
      if (first_failed == -1) first_failed = rank;
      ended[static_cast<std::size_t>(rank)] = {error, text};
    }
    save_failure(text);
    end_failed();
  }

  // Destroys the objects of the rank before the rank, including its communicators, which inform waiting peers.
  static void finish() {
    close_record();
    // Before memory is released, which waits for a device on which peers may wait for this rank.
    comm::detail::WorldState::current().let_go();
  }

  // Keeps the record if there is a run directory; otherwise it is destroyed with the rank.
  static void save_failure(const std::string& reason) {
    try {
      if (!probe::recorder().run_path().empty()) probe::recorder().save_failure(reason);
    } catch (const std::exception& error) {
      log::debug("simulate: the record was not kept: ", error.what());
    }
  }

  // Before peers learn that it leaves, since they may then read the record; and before its groups remove their rows.
  static void close_record() {
    if (!probe::recorder().run_path().empty()) probe::recorder().close();
  }

  // Informs peers before it waits for its work, which may wait for them.
  static void end_failed() {
    try {
      comm::detail::WorldState::current().leave();
      device::Device::get("host").synchronize();
    } catch (const std::exception& error) {
      log::debug("simulate: error after the body failed: ", error.what());
    }
  }
};

}  // namespace

void simulate(int ranks, const std::function<void()>& body, const SimulateOptions& options) {
  TESSERA_CHECK(ranks >= 1 && ranks <= 4096, "simulate: ranks must be in [1, 4096], got ", ranks);
  auto scheduler = options.seed ? SeededScheduler::create(*options.seed) : nullptr;
  Simulation simulation{.body = body,
                        .options = options,
                        .ranks = ranks,
                        .scheduler = scheduler,
                        .world = std::make_shared<comm::detail::SimulatedWorld>(scheduler)};
  if (scheduler != nullptr) {
    simulation.store = std::make_shared<SeededStore>(scheduler);
  } else {
    simulation.store = std::make_shared<comm::MemoryStore>();
  }
  simulation.ended.resize(static_cast<std::size_t>(ranks));
  simulation.record = record_options();
  const auto run_rank = [&](int rank) { return [&simulation, rank] { simulation.run_rank(rank); }; };
  if (scheduler != nullptr) {
    const SeededScheduler::Participant self(scheduler, "simulate");
    std::vector<std::uint64_t> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.push_back(scheduler->spawn_unranked("rank " + std::to_string(rank), run_rank(rank)));
    }
    for (const std::uint64_t thread : threads) {
      // All waiting threads get the deadlock error, including this one; it ends the ranks.
      try {
        scheduler->join(thread);
      } catch (const std::exception&) {
        scheduler->join(thread);
      }
    }
  } else {
    std::vector<Thread> threads;
    for (int rank = 0; rank < ranks; ++rank) threads.emplace_back("rank " + std::to_string(rank), run_rank(rank));
  }
  if (simulation.first_failed == -1) return;
  const Ended& first = simulation.ended[static_cast<std::size_t>(simulation.first_failed)];
  for (int rank = 0; rank < ranks; ++rank) {
    const Ended& ended = simulation.ended[static_cast<std::size_t>(rank)];
    if (rank != simulation.first_failed && ended.error)
      log::warn("rank ", rank, ": failed after the first error: ", ended.text);
  }
  std::rethrow_exception(first.error);
}

}  // namespace tessera
