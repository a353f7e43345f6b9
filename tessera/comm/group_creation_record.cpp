#include "tessera/comm/group_creation_record.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <exception>
#include <mutex>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/comm/detail/world_state.h"

namespace tessera::comm::detail {
namespace {

// The group creations of a rank: created after its recorder, and so destroyed before it.
struct GroupCreations {
  std::mutex mutex;
  std::array<probe::Row<GroupCreationRow>, GroupCreationRow::kRows> rows;
  std::uint32_t next = 0;
};
GroupCreations& creations() {
  return current_rank()->part<GroupCreations>([] { return std::make_shared<GroupCreations>(); });
}

constexpr std::uint32_t kDone = 1;
constexpr std::uint32_t kFirstFailure = 2;

}  // namespace

GroupCreationRecord::GroupCreationRecord(const std::string& what, const std::string& from, std::uint64_t number,
                                         const std::vector<Rank>& ranks) {
  probe::Recorder& recorder = probe::recorder();
  if (ranks.size() < 2 || !recorder.is_on()) return;
  row_ = {.what = recorder.intern(what),
          .from = recorder.intern(from),
          .ranks = recorder.intern(text_of(ranks)),
          .number = static_cast<std::uint32_t>(number),
          .when = recorder.now(),
          .state = 0,
          .thread = static_cast<std::uint32_t>(::syscall(SYS_gettid))};
  GroupCreations& all = creations();
  const std::lock_guard lock(all.mutex);
  recorder_ = &recorder;
  at_ = all.next;
  all.next = (all.next + 1) % GroupCreationRow::kRows;
  if (all.rows[at_]) {
    all.rows[at_].update(row_);
  } else {
    all.rows[at_] = recorder.table<GroupCreationRow>().claim(row_);
  }
}

GroupCreationRecord::~GroupCreationRecord() {
  if (recorder_ != nullptr) tell(kFirstFailure + static_cast<std::uint32_t>(ErrorKind::kAborted));
}

void GroupCreationRecord::done() {
  if (recorder_ != nullptr) tell(kDone);
}

// Records the exception that is being handled.
void GroupCreationRecord::fail() noexcept {
  if (recorder_ == nullptr) return;
  ErrorKind kind = ErrorKind::kAborted;
  try {
    std::rethrow_exception(std::current_exception());
  } catch (const Error& error) {
    kind = error.kind();
  } catch (...) {
    // Not an Error: recorded as cancelled.
  }
  tell(kFirstFailure + static_cast<std::uint32_t>(kind));
}

void GroupCreationRecord::tell(std::uint32_t state) {
  probe::Recorder* const recorder = std::exchange(recorder_, nullptr);
  if (!recorder->is_on()) return;
  GroupCreations& all = creations();
  const std::lock_guard lock(all.mutex);
  // Another thread may have reused the row since; the newer creation stays.
  all.rows[at_].update([&](GroupCreationRow& row) {
    if (row.what == row_.what && row.when == row_.when) row.state = state;
  });
}

}  // namespace tessera::comm::detail
