// The table of faults. Ranks have run one operation, a barrier, when the fault happens, unless it concerns the start.
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <csignal>
#include <cstdlib>
#include <thread>

#include "tessera/base/error.h"
#include "tessera/base/probe/recorder.h"
#include "tessera/comm/store/descriptor.h"
#include "tessera/comm/store/file_store.h"
#include "tessera/comm/testing/drill.h"
#include "tessera/device/device.h"

namespace tessera::comm {
namespace {

using namespace std::chrono_literals;
using How = DrillEnd::How;
using Words = std::vector<std::string_view>;

Operation all_reduce(const DrillRank& rank, std::int64_t count = 1000) {
  return {
      .kind = OpKind::kAllReduce, .dtype = DType::kF32, .in = rank.in.data(), .out = rank.out.data(), .count = count};
}
Operation broadcast(const DrillRank& rank, int root = 0) {
  return {.kind = OpKind::kBroadcast,
          .dtype = DType::kF32,
          .root = root,
          .in = rank.in.data(),
          .out = rank.out.data(),
          .count = 1000};
}

// Expected ends: all ranks with the same message, or all but the culprit.
std::function<DrillEnd(int)> all_say(Words words) {
  return [words = std::move(words)](int) { return DrillEnd{.how = How::kWords, .words = words}; };
}
std::function<DrillEnd(int)> others_say(Words words, How culprit) {
  return [words = std::move(words), culprit](int rank) {
    return rank == kCulprit ? DrillEnd{.how = culprit} : DrillEnd{.how = How::kWords, .words = words};
  };
}
std::function<DrillEnd(int)> culprit_says(Words words) {
  return [words = std::move(words)](int rank) {
    return rank == kCulprit ? DrillEnd{.how = How::kWords, .words = words} : DrillEnd{};
  };
}
DrillEnd all_well(int /*rank*/) { return {}; }

// Each rank enqueues one operation, and that of the culprit differs.
CommDrillFault differs(std::string_view name, std::function<Operation(const DrillRank&, bool is_other)> asked,
                       Words words) {
  return {.name = name,
          .deadline = 0s,
          .body =
              [asked = std::move(asked)](DrillRank& rank) {
                rank.start();
                rank.begin();
                rank.run(asked(rank, rank.is_culprit()));
              },
          .expected = all_say(std::move(words))};
}

void killed(DrillRank& rank) {
  rank.start();
  rank.begin();
  if (rank.is_culprit()) DrillRank::die();
  rank.run(all_reduce(rank));
}
void killed_while_others_wait(DrillRank& rank) {
  rank.start();
  if (rank.is_culprit()) {
    DrillRank::hear("waiting 0");
    DrillRank::hear("waiting 2");
    rank.begin();
    DrillRank::die();
  }
  const Work work = rank.group.launch(all_reduce(rank, kDrillElements), device::Device::get("host").create_stream());
  while (work.sequence() == 0) std::this_thread::yield();
  DrillRank::say("waiting " + std::to_string(rank.rank()));
  work.wait();
}
void killed_between_messages(DrillRank& rank) {
  rank.start();
  rank.begin();
  if (rank.is_culprit()) DrillRank::die();
  // One waits for its send, the other for its receive.
  Operation message{.kind = rank.rank() == 0 ? OpKind::kSend : OpKind::kRecv,
                    .dtype = DType::kF32,
                    .peer = kCulprit,
                    .in = rank.in.data(),
                    .out = rank.out.data(),
                    .count = 1000};
  rank.run(message);
}
void stopped(DrillRank& rank) {
  rank.start(kDrillDeadline);
  rank.begin();
  if (rank.is_culprit()) ::raise(SIGSTOP);
  rank.run(all_reduce(rank));
}
void late(DrillRank& rank) {
  rank.start(kDrillDeadline);
  if (rank.is_culprit()) {
    DrillRank::hear("over 0");
    DrillRank::hear("over 2");
    rank.run(all_reduce(rank));
    return;
  }
  rank.begin();
  try {
    rank.run(all_reduce(rank));
  } catch (const Error&) {
    DrillRank::say("over " + std::to_string(rank.rank()));
    throw;
  }
}
void skipped(DrillRank& rank) {
  rank.start();
  rank.begin();
  if (!rank.is_culprit()) rank.run(all_reduce(rank));
  rank.run(broadcast(rank));
}
void skipped_last(DrillRank& rank) {
  rank.start();
  rank.begin();
  if (!rank.is_culprit()) rank.run(all_reduce(rank));
}
void extra(DrillRank& rank) {
  rank.start();
  rank.begin();
  if (rank.is_culprit()) rank.run(broadcast(rank));
  rank.run(all_reduce(rank));
}
void extra_last(DrillRank& rank) {
  rank.start();
  rank.begin();
  if (rank.is_culprit()) rank.run(all_reduce(rank));
}
void reordered(DrillRank& rank) {
  rank.start();
  rank.begin();
  rank.run(rank.is_culprit() ? broadcast(rank) : all_reduce(rank));
  rank.run(rank.is_culprit() ? all_reduce(rank) : broadcast(rank));
}
void killed_before_init(DrillRank& rank) {
  rank.begin();
  if (rank.is_culprit()) DrillRank::die();
  rank.join(kDrillDeadline);
}
void killed_in_init(DrillRank& rank) {
  rank.join();
  rank.begin();
  if (rank.is_culprit()) DrillRank::die();
  (void)world();
}
void killed_before_a_subgroup(DrillRank& rank) {
  rank.start();
  rank.begin();
  if (rank.is_culprit()) DrillRank::die();
  const int places[] = {2, kCulprit, 0};
  (void)rank.group.subgroup(places);
}
void killed_before_a_split(DrillRank& rank) {
  rank.start();
  rank.begin();
  if (rank.is_culprit()) DrillRank::die();
  (void)rank.group.split(0);
}
// It has finished its work, but not yet left the group.
void die_at_exit(DrillRank& rank) {
  rank.start();
  rank.begin();
  if (rank.is_culprit()) {
    std::atexit([] { DrillRank::die(); });
    std::exit(0);
  }
}
void killed_in_teardown(DrillRank& rank) { die_at_exit(rank); }
void killed_in_teardown_early(DrillRank& rank) {
  die_at_exit(rank);
  rank.run(all_reduce(rank));
}

// While this object lives, files of the process cannot grow beyond this limit.
class FileLimit {
 public:
  explicit FileLimit(rlim_t nbytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{nbytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  rlimit before_ = {};
};
void no_space_for_the_record(DrillRank& rank, const char* then) {
  rank.begin();
  if (rank.is_culprit()) ::setenv("TESSERA_RECORD_NO_SPACE", then, 1);
  rank.join();
  if (rank.is_culprit()) {
    const FileLimit limit(64 << 10);
    (void)probe::recorder();
  }
  rank.start();
  rank.run(all_reduce(rank));
}

// The culprit is not a rank, but another process that listens on the port of rank 0.
void port_taken(DrillRank& rank) {
  FileStore notes(rank.store().substr(std::string_view("file://").size()));
  if (rank.is_culprit()) {
    const detail::Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    TESSERA_CHECK_AS(IoError, ::bind(socket.get(), generic, length) == 0 && ::listen(socket.get(), 8) == 0, "no port");
    ::getsockname(socket.get(), generic, &length);
    notes.set("port", std::to_string(ntohs(address.sin_port)));
    (void)notes.get("over", 40s);
    return;
  }
  rank.set_store("tcp://127.0.0.1:" + notes.get("port", 20s));
  rank.begin();
  try {
    rank.join(kDrillDeadline);
  } catch (const Error&) {
    if (rank.rank() == 2) notes.set("over", "");
    throw;
  }
}
DrillEnd port_taken_ends(int rank) {
  if (rank == kCulprit) return {};
  if (rank == 0) return {.how = How::kWords, .words = {"i/o error", "port ", "in use"}};
  return {.how = How::kWords, .words = {"tcp store at 127.0.0.1:", "did not answer"}};
}

// Faults of processes: ranks that die, stop or arrive late.
void add_absences(std::vector<CommDrillFault>& faults) {
  const Words died = {"aborted: group world: operation 2, all_reduce(f32[1000], sum): rank 1 died"};
  faults.push_back({"killed", 0s, killed, others_say(died, How::kKilled)});
  faults.push_back(
      {"killed_while_others_wait", 0s, killed_while_others_wait,
       others_say({"aborted: group world: operation 2, all_reduce(f32[100000], sum): rank 1 died"}, How::kKilled)});
  faults.push_back({"killed_between_messages", 0s, killed_between_messages,
                    others_say({"aborted: group world: operation 2, ", "rank 1 died"}, How::kKilled)});
  const Words missing = {
      "timeout: group world: operation 2, all_reduce(f32[1000], sum): rank 1 did not arrive within 1 s",
      "rank 1 is at operation 1"};
  faults.push_back({"stopped", kDrillDeadline, stopped, all_say(missing)});
  faults.push_back({"late", kDrillDeadline, late, all_say(missing)});
  faults.push_back(
      {"killed_before_init", kDrillDeadline, killed_before_init,
       others_say({"timeout: init: all 3 ranks must join within 1000 ms, but rank 1 did not"}, How::kKilled)});
  faults.push_back({"killed_in_init", 0s, killed_in_init,
                    others_say({"aborted: group of ranks 0-2: rank 1 ended before it joined"}, How::kKilled)});
  faults.push_back({"killed_before_a_subgroup", 0s, killed_before_a_subgroup,
                    others_say({"aborted: group of ranks 2,1,0: rank 1 ended before it joined"}, How::kKilled)});
  faults.push_back({"killed_before_a_split", 0s, killed_before_a_split,
                    others_say({"aborted: group world: split 1: rank 1 has ended or left"}, How::kKilled)});
  faults.push_back({"killed_in_teardown", 0s, killed_in_teardown,
                    [](int rank) { return rank == kCulprit ? DrillEnd{.how = How::kKilled} : DrillEnd{}; }});
  faults.push_back({"killed_in_teardown_early", 0s, killed_in_teardown_early, others_say(died, How::kKilled)});
}

// Faults of programs: ranks that enqueue different operations.
void add_differences(std::vector<CommDrillFault>& faults) {
  const Words reduce_and_broadcast = {
      "mismatch: group world: operation 2, ",
      "ranks 0 and 2 run all_reduce(f32[1000], sum), rank 1 broadcast(f32[1000], root 0)"};
  faults.push_back({"skipped", 0s, skipped, all_say(reduce_and_broadcast)});
  faults.push_back(
      {"skipped_last", 0s, skipped_last,
       others_say({"aborted: group world: operation 2, all_reduce(f32[1000], sum): rank 1 has left"}, How::kWell)});
  faults.push_back({"extra", 0s, extra, all_say(reduce_and_broadcast)});
  faults.push_back(
      {"extra_last", 0s, extra_last,
       culprit_says({"aborted: group world: operation 2, all_reduce(f32[1000], sum): rank", "left the group"})});
  faults.push_back({"reordered", 0s, reordered, all_say(reduce_and_broadcast)});
  faults.push_back(differs("other_size",
                           [](const DrillRank& rank, bool is_other) { return all_reduce(rank, is_other ? 999 : 1000); },
                           {"mismatch: group world: operation 2, ",
                            "ranks 0 and 2 run all_reduce(f32[1000], sum), rank 1 all_reduce(f32[999], sum)"}));
  faults.push_back(differs(
      "other_size_of_large",
      [](const DrillRank& rank, bool is_other) { return all_reduce(rank, kDrillElements - (is_other ? 1 : 0)); },
      {"ranks 0 and 2 run all_reduce(f32[100000], sum), rank 1 all_reduce(f32[99999], sum)"}));
  faults.push_back(differs("other_dtype",
                           [](const DrillRank& rank, bool is_other) {
                             Operation op = all_reduce(rank);
                             if (is_other) op.dtype = DType::kI32;
                             return op;
                           },
                           {"mismatch: group world: operation 2, ", "rank 1 all_reduce(i32[1000], sum)"}));
  faults.push_back(differs("other_root",
                           [](const DrillRank& rank, bool is_other) { return broadcast(rank, is_other ? 2 : 0); },
                           {"mismatch: group world: operation 2, ",
                            "ranks 0 and 2 run broadcast(f32[1000], root 0), rank 1 broadcast(f32[1000], root 2)"}));
  faults.push_back(differs("other_reduction",
                           [](const DrillRank& rank, bool is_other) {
                             Operation op = all_reduce(rank);
                             if (is_other) op.reduction.kind = Reduction::kMax;
                             return op;
                           },
                           {"mismatch: group world: operation 2, ", "rank 1 all_reduce(f32[1000], max)"}));
  faults.push_back(differs(
      "other_factor",
      [](const DrillRank& rank, bool is_other) {
        Operation op = all_reduce(rank);
        op.reduction = {Reduction::kPremultiply, is_other ? 0.25 : 0.5};
        return op;
      },
      {"mismatch: group world: operation 2, ", "ranks 0 and 2 run all_reduce(f32[1000], premultiplied sum by 0.5)",
       "rank 1 all_reduce(f32[1000], premultiplied sum by 0.25)"}));
}

Operation uneven_gather(const DrillRank& rank, bool is_other) {
  Operation op = all_reduce(rank, 0);
  op.kind = OpKind::kAllGather;
  op.out_counts = {1, 2, is_other ? 4 : 3};
  return op;
}
Operation permute(const DrillRank& rank, bool is_other) {
  Operation op = all_reduce(rank, 10);
  op.kind = OpKind::kPermute;
  op.targets = {1, 2, is_other ? -1 : 0};
  return op;
}
Operation uneven_exchange(const DrillRank& rank, bool is_other) {
  Operation op = all_reduce(rank, 0);
  op.kind = OpKind::kAllToAll;
  op.in_counts = {1, 1, is_other ? 2 : 1};
  op.out_counts = {1, 1, 1};
  return op;
}

}  // namespace

const std::vector<CommDrillFault>& all_faults() {
  static const std::vector<CommDrillFault> kFaults = [] {
    std::vector<CommDrillFault> faults;
    add_absences(faults);
    add_differences(faults);
    faults.push_back(
        differs("other_splits", uneven_gather,
                {"mismatch: group world: operation 2, ",
                 "ranks 0 and 2 run all_gather(f32[0], out=[1, 2, 3]), rank 1 all_gather(f32[0], out=[1, 2, 4])"}));
    faults.push_back(
        differs("other_targets", permute,
                {"mismatch: group world: operation 2, ",
                 "ranks 0 and 2 run permute(f32[10], to=[1, 2, 0]), rank 1 permute(f32[10], to=[1, 2, -1])"}));
    faults.push_back(
        differs("splits_that_do_not_fit", uneven_exchange,
                {"mismatch: group world: operation 2, all_to_all", "rank 1 sends 2 elements, rank 2 expects 1"}));
    faults.push_back({"no_space_for_the_record", 0s, [](DrillRank& rank) { no_space_for_the_record(rank, "fail"); },
                      [](int rank) {
                        if (rank == kCulprit) return DrillEnd{.how = How::kWords, .words = {"i/o error", "record"}};
                        return DrillEnd{.how = How::kWords,
                                        .words = {"aborted: group of ranks 0-2: rank 1 ended before it joined"}};
                      }});
    faults.push_back(
        {"no_space_and_no_record", 0s, [](DrillRank& rank) { no_space_for_the_record(rank, "off"); }, all_well});
    faults.push_back({"port_taken", kDrillDeadline, port_taken, port_taken_ends});
    return faults;
  }();
  return kFaults;
}

}  // namespace tessera::comm
