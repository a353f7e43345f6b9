// The threads of a record file. The number of a thread is its row in the table "thread".
// Rows of ended threads are kept, because their records are still in the rings, and reused
// for new threads, the earliest ended first, if no row is free.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>

#include "tessera/base/probe/detail/table_section.h"

namespace tessera::probe::detail {

struct ThreadRow {
  std::uint32_t tid;
  std::uint32_t reserved;
  char name[16];
  Moment ended;
  static constexpr std::uint32_t kRows = 512;
  TESSERA_RECORD(ThreadRow, "thread", tid, name, ended)
};
static_assert(sizeof(ThreadRow) == 32);

inline constexpr std::uint64_t kUnknownThread = 0xffff;

class ThreadRows {
 public:
  ThreadRows(TableSection& tables, ClockSource clock);
  /// Returns a number for the calling thread; kUnknownThread if every row belongs to a running thread.
  std::uint64_t enter();
  void leave(std::uint64_t row);

 private:
  TableCore* table_;
  ClockSource clock_;
  std::mutex mutex_;
  std::deque<std::uint32_t> ended_;
};

}  // namespace tessera::probe::detail
