// The backend of ranks that mpirun or srun started, on one or several machines. It transfers host memory by MPI
// messages. Rank r of the world is rank r of MPI_COMM_WORLD. Operations consist of transfers (collective.h) over
// messages, so that all collectives are supported and our code makes deterministic reductions; MPI's collectives are
// not used.
//
// MPI ends the job when a process dies, so no ranks survive that could shrink a group.
#include <unistd.h>

#include "tessera/base/env.h"
#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/comm/backends/mpi/detail/steps.h"
#include "tessera/comm/detail/peer_memory/failures.h"
#include "tessera/comm/detail/task_runner.h"
#include "tessera/comm/detail/world_state.h"

namespace tessera::comm {
namespace {

using mpi::MpiLibrary;

const Capabilities& mpi_capabilities() {
  static const Capabilities kAll = {.kinds = kAllOpKinds,
                                    .device_kinds = {"host"},
                                    .has_fixed_order = true,
                                    .has_abort = true,
                                    .has_shrink = false,
                                    .has_capture = true,
                                    .has_checked_mode = true};
  return kAll;
}

class MpiCommunicator : public Communicator, public std::enable_shared_from_this<MpiCommunicator> {
 public:
  MpiCommunicator(MPI_Comm comm, const ConnectRequest& request, bool crowded, bool checked)
      : endpoint_(MpiLibrary::get(), comm, request),
        tasks_(request.rank, static_cast<int>(request.ranks.size())),
        steps_(endpoint_, tasks_, crowded, checked) {}
  ~MpiCommunicator() override { leave(); }

  [[nodiscard]] const Capabilities& capabilities() const override { return mpi_capabilities(); }
  void enqueue(const std::shared_ptr<Task>& task, const device::Stream& stream) override {
    tasks_.enqueue(*task, stream, [self = shared_from_this(), task] {
      self->tasks_.run(*task, [&] {
        self->tasks_.note_began(*task);
        self->steps_.run(*task);
      });
    });
  }
  void abort(std::string_view reason) noexcept override {
    try {
      const int self = endpoint_.rank();
      const std::string who = detail::text_of_members(std::span(&self, 1), endpoint_.world());
      endpoint_.end(
          {.kind = Failure::Kind::kAborted, .by = self, .text = "aborted by " + who + ": " + std::string(reason)});
    } catch (const std::exception&) {
      // MPI can no longer send: the other ranks notice at their deadlines.
    }
  }
  void leave() noexcept override { endpoint_.leave(); }
  [[nodiscard]] std::exception_ptr failure(std::string_view group) override {
    endpoint_.look();
    if (!endpoint_.has_ended()) return nullptr;
    try {
      endpoint_.throw_end(group);
    } catch (const std::exception&) {
      return std::current_exception();
    }
  }
  [[nodiscard]] std::vector<int> gone() const override {
    endpoint_.look();
    std::vector<int> ranks;
    for (int peer = 0; peer < endpoint_.size(); ++peer) {
      if (endpoint_.has_left(peer)) ranks.push_back(peer);
    }
    return ranks;
  }
  void extend_deadline(std::chrono::nanoseconds by) override { tasks_.extend(by); }
  [[nodiscard]] std::uint64_t sequence() const override { return tasks_.sequence(); }

 private:
  mutable mpi::Endpoint endpoint_;
  detail::TaskRunner tasks_;
  mpi::MpiSteps steps_;
};

constexpr const char* kIsChecked = "is checked";

std::string why_not(const ConnectRequest& request) {
  if (detail::WorldState::current().processes() == nullptr) return "the ranks are not processes";
  if (std::string reason = MpiLibrary::why_not(); !reason.empty()) return reason;
  const auto world_size = static_cast<std::size_t>(current_place().world_size);
  if (request.ranks.size() < world_size && !MpiLibrary::get().is_running()) {
    return "the first group on mpi must contain all ranks, because MPI_Init waits for all; create such a group first";
  }
  return "";
}

// MPI's own waits have no deadline, so they start after all ranks have arrived here. Rank 0 decides whether the ranks
// check each other.
void meet(const ConnectRequest& request) {
  if (request.rank == 0) request.store->set(kIsChecked, env::comm_check() ? "1" : "0");
  const auto key = [](Rank rank) { return "here " + to_string(rank); };
  request.store->set(key(request.ranks[static_cast<std::size_t>(request.rank)]), "");
  std::vector<std::string> keys;
  for (const Rank rank : request.ranks) keys.push_back(key(rank));
  try {
    request.store->wait(keys, request.timeout);
  } catch (const TimeoutError&) {
    std::string missing;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (!request.store->find(keys[i]))
        missing += (missing.empty() ? "rank " : ", rank ") + to_string(request.ranks[i]);
    }
    TESSERA_CHECK_AS(TimeoutError, missing.empty(), "ranks ", request.name, ": ", missing, " did not join within ",
                     request.timeout);
  }
}

void check_place(MpiLibrary& library) {
  const mpi::Functions& call = library.functions();
  int rank = 0;
  int size = 0;
  library.check(call.comm_rank(library.world(), &rank), "MPI_Comm_rank");
  library.check(call.comm_size(library.world(), &size), "MPI_Comm_size");
  const RankPlace& place = current_place();
  TESSERA_CHECK_AS(NotSupported, Rank(rank) == place.rank && size == place.world_size, "MPI must report rank ",
                   place.rank, " of ", place.world_size, ", got rank ", rank, " of ", size,
                   "; start the ranks with mpirun or srun and leave RANK and WORLD_SIZE unset");
}

MPI_Comm make_communicator(MpiLibrary& library, const ConnectRequest& request) {
  const mpi::Functions& call = library.functions();
  std::vector<int> ranks;
  for (const Rank rank : request.ranks) ranks.push_back(rank.value());
  // A number that all ranks of a set compute equally distinguishes concurrent calls for several sets.
  std::uint32_t number = 2166136261U;
  for (const char c : request.name) number = (number ^ static_cast<unsigned char>(c)) * 16777619U;
  const auto turn = library.turn();
  MPI_Group all = nullptr;
  MPI_Group some = nullptr;
  MPI_Comm made = nullptr;
  library.check(call.comm_group(library.world(), &all), "MPI_Comm_group");
  library.check(call.group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &some), "MPI_Group_incl");
  library.check(call.comm_create_group(library.world(), some, static_cast<int>(number % 32768), &made),
                "MPI_Comm_create_group");
  library.check(call.comm_set_errhandler(made, library.errors_return()), "MPI_Comm_set_errhandler");
  call.group_free(&some);
  call.group_free(&all);
  return made;
}

std::shared_ptr<Communicator> connect(const ConnectRequest& request) {
  meet(request);
  MpiLibrary& library = MpiLibrary::get();
  library.start();
  check_place(library);
  const bool is_crowded = current_place().local_world_size > ::sysconf(_SC_NPROCESSORS_ONLN);
  const bool is_checked = request.store->get(kIsChecked, request.timeout) == "1";
  auto communicator =
      std::make_shared<MpiCommunicator>(make_communicator(library, request), request, is_crowded, is_checked);
  library.at_end([weak = std::weak_ptr(communicator)] {
    if (const auto live = weak.lock()) live->leave();
  });
  return communicator;
}

const BackendRegistration kMpi{
    {.name = "mpi", .preference = 5, .capabilities = mpi_capabilities(), .why_not = why_not, .connect = connect}};

}  // namespace
}  // namespace tessera::comm
