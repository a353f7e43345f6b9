// The flight recorder of one rank. All layers write to it at all times; a record costs a few stores.
//
//   probe::record(probe::Ring::kLaunch, LaunchRecord{stream, label, tick});   // for the current rank
//
// A record goes into a slot of one of three rings (slot.h). A thread leases several slots at a time, so that writing
// touches no memory that other threads write. The file survives the process (record_store.h). Strings are interned once
// per file, tables hold state that must not be overwritten (state_table.h), and reader.h reads all of it at any time.
#pragma once

#include <atomic>
#include <concepts>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "tessera/base/export.h"
#include "tessera/base/probe/options.h"
#include "tessera/base/probe/schema.h"
#include "tessera/base/probe/slot.h"
#include "tessera/base/probe/state_table.h"
#include "tessera/base/probe/tsc_clock.h"
#include "tessera/base/rank.h"

namespace tessera::probe {

/// The rings of a record file. Each kind of traffic has its own ring, so
/// that frequent records do not overwrite rare ones.
enum class Ring : std::uint8_t {
  kComm = 0,    ///< Collectives and related operations.
  kMemory = 1,  ///< Allocations, frees, mappings.
  kLaunch = 2,  ///< Launches, replays, copies and all other records.
};

namespace detail {

struct RingShare {
  const char* name;
  std::uint32_t weight;  // share of the file
};
inline constexpr RingShare kRingShares[] = {{"comm", 1}, {"memory", 1}, {"launch", 2}};
inline constexpr std::uint32_t kRingCount = 3;
inline constexpr std::size_t kSlotsAhead = 6;

/// The lease of a thread in one ring.
struct Lease {
  std::uint64_t* next = nullptr;  // slot to write
  std::uint64_t* end = nullptr;
  std::uint64_t place = 0;     // of `next`
  std::uint64_t head = 0;      // thread and lap, as in word 2 of a slot
  std::uint64_t check_at = 0;  // ticks of the next check whether other threads have lapped the lease
  std::uint64_t begin = 0;     // slots leased in the ring before this lease
};

/// State of a thread for one recorder.
struct ThreadWriter {
  std::uint64_t recorder = 0;  // id; never reused, so a destroyed recorder is not mistaken for another
  std::uint64_t thread = 0;    // row in the table of threads
  Lease leases[kRingCount];
};

struct ThreadWriters;

/// The writer that this thread used last. The initial-exec model avoids a call on access.
[[gnu::tls_model("initial-exec")]] extern TESSERA_API constinit thread_local ThreadWriter* last_writer;

}  // namespace detail

/// Writes the record file of one rank. Thread-safe. A part of its rank; recorder() returns it.
class TESSERA_API Recorder {
 public:
  /// Creates the file and links it from the run directory (of `place`, otherwise TESSERA_RUN_DIR). If that fails,
  /// reports it once on stderr and in status(), and records less or nothing, as the options demand.
  Recorder(const RankPlace& place, const RecordOptions& options);
  /// Calls close().
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// Writes a record. Never blocks, never fails, never allocates; takes about 6 ns plus the clock read.
  template <Describable Kind>
  void write(Ring ring, const Kind& record) {
    if (is_on()) write_at(begin(), ring, record);
  }
  /// Returns the time for a later write_at(). The file knows the thread afterwards.
  [[nodiscard]] Moment begin() {
    if (detail::last_writer == nullptr || detail::last_writer->recorder != id_) [[unlikely]]
      enter_thread();
    return now();
  }
  /// Writes a record at a time that begin() returned. An early clock read hides its latency. The caller ensures the
  /// order of its records.
  template <Describable Kind>
  void write_at(Moment moment, Ring ring, const Kind& record);
  /// Writes a record that is given as words, which avoids a copy through memory.
  template <Describable Kind, std::same_as<std::uint64_t>... Words>
  void write_words_at(Moment moment, Ring ring, Words... words);

  /// Returns the id of a string in this file, for records and rows. Takes a
  /// map lookup: cache the id if it is used often.
  StringId intern(std::string_view text);

  /// Returns the table of rows of kind T. The first call creates it with up to T::kRows rows: fewer in a small file,
  /// none if the space for tables is used up or recording is off.
  template <RowKind T>
  [[nodiscard]] StateTable<T> table() {
    return StateTable<T>(is_on() ? table_core(detail::kind_number_of<T>(), sizeof(T), T::kRows) : nullptr);
  }

  /// Returns the number of slots of a ring; 0 if recording is off.
  [[nodiscard]] std::uint64_t slots(Ring ring) const;
  /// Returns the number of slots of a ring leased to threads since the start.
  [[nodiscard]] std::uint64_t leased(Ring ring) const;
  /// Returns the current time, for a field of type Moment.
  [[nodiscard]] Moment now() const { return Moment{read_ticks(clock_)}; }
  /// Returns the clock of all moments.
  [[nodiscard]] ClockSource clock_source() const { return clock_; }
  /// Returns true if recording is on.
  [[nodiscard]] bool is_on() const { return is_on_.load(std::memory_order_relaxed); }
  /// Returns one line with the path and size of the file, or the reason why there is no file.
  [[nodiscard]] const std::string& status() const;
  /// Returns the path of the record file; empty if no file exists.
  [[nodiscard]] const std::string& path() const;
  /// Returns the path of the link (later the copy) in the run directory; empty if neither exists.
  [[nodiscard]] const std::string& run_path() const;

  /// Marks the rank as failed with a reason in the file, and copies the file into the run
  /// directory. Recording continues. The file of a failed rank is removed at the end only
  /// if it was copied. Throws IoError if the copy fails.
  void save_failure(std::string_view reason);
  /// Ends recording: copies the file into the run directory, if there is one, and removes it from tmpfs. Called when
  /// the rank ends or the process exits; a killed process leaves its file. Problems are reported on stderr.
  void close() noexcept;

 private:
  struct Parts;
  friend struct detail::ThreadWriters;

  void end() noexcept;
  detail::Lease* lease_for(Ring ring, std::uint64_t ticks);
  detail::ThreadWriter* enter_thread();
  std::uint64_t enter_thread_row();
  void leave_thread_row(std::uint64_t row);
  void renew_lease(detail::ThreadWriter& writer, Ring ring, std::uint64_t ticks);
  void refine_clock(std::uint64_t ticks);
  detail::TableCore* table_core(std::uint16_t kind, std::uint16_t payload_bytes, std::uint32_t rows);

  std::atomic<bool> is_on_{false};
  ClockSource clock_;
  std::uint64_t id_;
  std::unique_ptr<Parts> parts_;
};

/// Returns the recorder of the rank of this thread. The first call creates it as TESSERA_RECORD demands.
inline Recorder& recorder();

/// Creates the recorder of a rank with these options instead of the environment. Throws InvalidArgument if it has one.
TESSERA_API Recorder& open_recorder(RankContext& rank, const RecordOptions& options);

/// Writes a record for the rank of this thread.
template <Describable Kind>
void record(Ring ring, const Kind& record) {
  recorder().write(ring, record);
}

namespace detail {
TESSERA_API Recorder& find_recorder();
}  // namespace detail

inline Recorder& recorder() {
  Recorder* cached = tessera::detail::cached_recorder;
  return cached != nullptr ? *cached : detail::find_recorder();
}

// Returns the lease for the next record of this thread; null if the thread has ended.
inline detail::Lease* Recorder::lease_for(Ring ring, std::uint64_t ticks) {
  detail::ThreadWriter* writer = detail::last_writer;
  if (writer == nullptr || writer->recorder != id_) [[unlikely]] {
    writer = enter_thread();
    if (writer == nullptr) return nullptr;
  }
  detail::Lease& lease = writer->leases[static_cast<std::size_t>(ring)];
  if (lease.next == lease.end || ticks >= lease.check_at) [[unlikely]]
    renew_lease(*writer, ring, ticks);
  // Prefetches the lines of the next records: otherwise a lock taken soon after would wait for these stores.
  __builtin_prefetch(lease.next + detail::kSlotsAhead * detail::kSlotWords, 1);
  return &lease;
}

template <Describable Kind>
inline void Recorder::write_at(Moment moment, Ring ring, const Kind& record) {
  static_assert(sizeof(Kind) <= detail::kPayloadBytes, "a record's payload has at most 40 bytes");
  if (!is_on()) return;
  const std::uint64_t kind = detail::kind_number_of<Kind>();
  const std::uint64_t ticks = moment.value();
  detail::Lease* lease = lease_for(ring, ticks);
  if (lease == nullptr) return;
  std::uint64_t word[detail::kSlotWords] = {0, ticks, lease->head | kind};
  std::memcpy(word + 3, &record, sizeof record);
  detail::store_slot(lease->next, word, lease->place, [](int) {});
  lease->next += detail::kSlotWords;
  ++lease->place;
}

template <Describable Kind, std::same_as<std::uint64_t>... Words>
inline void Recorder::write_words_at(Moment moment, Ring ring, Words... words) {
  static_assert(sizeof...(Words) <= detail::kPayloadWords && sizeof...(Words) == (sizeof(Kind) + 7) / 8,
                "all its words");
  if (!is_on()) return;
  const std::uint64_t kind = detail::kind_number_of<Kind>();
  const std::uint64_t ticks = moment.value();
  detail::Lease* lease = lease_for(ring, ticks);
  if (lease == nullptr) return;
  const std::uint64_t word[detail::kSlotWords] = {0, ticks, lease->head | kind, words...};
  detail::store_slot(lease->next, word, lease->place, [](int) {});
  lease->next += detail::kSlotWords;
  ++lease->place;
}

}  // namespace tessera::probe
