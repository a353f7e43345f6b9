// The recorder: the black box of one rank. Every layer writes to it, always, at the cost of a few stores.
//
//   probe::record(probe::Ring::kLaunch, LaunchRecord{stream, label, tick});   // for the current rank
//
// A record goes into a slot of one of three rings (slot.h). A thread leases a run of slots at a time, so that writing
// touches no memory that other threads write; the file survives the process (record_store.h). Strings are interned once
// per file, state that must not be forgotten lives in tables (state_table.h), and reader.h reads all of it at any
// moment.
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

/// The rings of a record file. Each kind of traffic has its own, so that a storm of one does not wash away another.
enum class Ring : std::uint8_t {
  kComm = 0,    ///< collectives and what surrounds them
  kMemory = 1,  ///< allocations, frees, mapping
  kLaunch = 2,  ///< launches, replays, copies, everything else
};

namespace detail {

struct RingShare {
  const char* name;
  std::uint32_t weight;  // its share of the file
};
inline constexpr RingShare kRingShares[] = {{"comm", 1}, {"memory", 1}, {"launch", 2}};
inline constexpr std::uint32_t kRingCount = 3;
inline constexpr std::size_t kSlotsAhead = 6;

/// A thread's lease in one ring.
struct Lease {
  std::uint64_t* next = nullptr;  // slot to write
  std::uint64_t* end = nullptr;
  std::uint64_t place = 0;     // of `next`
  std::uint64_t head = 0;      // thread and lap, as in word 2 of a slot
  std::uint64_t check_at = 0;  // ticks when to ask again whether others have lapped it
  std::uint64_t begin = 0;     // slots leased in the ring before this lease
};

/// What a thread keeps for one recorder.
struct ThreadWriter {
  std::uint64_t recorder = 0;  // id; never used twice, so a recorder that is gone is never mistaken for another
  std::uint64_t thread = 0;    // row in the table of threads
  Lease leases[kRingCount];
};

struct ThreadWriters;

/// The writer this thread used last. Initial-exec: no call to find it.
[[gnu::tls_model("initial-exec")]] extern TESSERA_API constinit thread_local ThreadWriter* last_writer;

}  // namespace detail

/// Writes one rank's record file. Thread-safe. Lives as a part of its rank; recorder() finds it.
class TESSERA_API Recorder {
 public:
  /// Makes the file as told and links it from the run directory (the place's, else TESSERA_RUN_DIR). Where that cannot
  /// be, says so once on standard error and in status(), and records less or nothing, as the options say.
  Recorder(const RankPlace& place, const RecordOptions& options);
  /// As close().
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// Writes a record. Never blocks, never fails, allocates nothing; about 6 ns beside reading the clock.
  template <Describable Kind>
  void write(Ring ring, const Kind& record) {
    if (is_on()) write_at(begin(), ring, record);
  }
  /// The moment of a record to come: the thread is known to the file from then on.
  [[nodiscard]] Moment begin() {
    if (detail::last_writer == nullptr || detail::last_writer->recorder != id_) [[unlikely]]
      enter_thread();
    return now();
  }
  /// Writes a record at a moment that begin() gave. Reading the clock early hides what it takes; the caller sees to the
  /// order of its records.
  template <Describable Kind>
  void write_at(Moment moment, Ring ring, const Kind& record);
  /// Likewise of a record that was put together as its words, which saves the way through memory.
  template <Describable Kind, std::same_as<std::uint64_t>... Words>
  void write_words_at(Moment moment, Ring ring, Words... words);

  /// The id of a string in this file, for records and rows. A map lookup: keep it where it is used often.
  StringId intern(std::string_view text);

  /// The table of rows of kind T, made on first use with up to T::kRows rows: fewer in a small file, none when state
  /// tables have no room left or recording is off.
  template <RowKind T>
  [[nodiscard]] StateTable<T> table() {
    return StateTable<T>(is_on() ? table_core(detail::kind_number_of<T>(), sizeof(T), T::kRows) : nullptr);
  }

  /// Slots that a ring has; 0 when recording is off.
  [[nodiscard]] std::uint64_t slots(Ring ring) const;
  /// Slots of a ring handed out to threads since the start, to a lease: how far it has gone.
  [[nodiscard]] std::uint64_t leased(Ring ring) const;
  /// The current moment, for a field of type Moment.
  [[nodiscard]] Moment now() const { return Moment{read_ticks(clock_)}; }
  /// What moments are counted by.
  [[nodiscard]] ClockSource clock_source() const { return clock_; }
  /// Whether anything is recorded.
  [[nodiscard]] bool is_on() const { return is_on_.load(std::memory_order_relaxed); }
  /// Where the file is and how large, or why there is none: one line.
  [[nodiscard]] const std::string& status() const;
  /// The record file; empty when there is none.
  [[nodiscard]] const std::string& path() const;
  /// The link (later the copy) in the run directory; empty when there is none.
  [[nodiscard]] const std::string& run_path() const;

  /// Notes in the file that the rank failed and why, and copies it into the run directory as it stands. Recording goes
  /// on. A file of a failed rank is not removed at the end unless it was copied. Throws IoError if copying fails.
  void save_failure(std::string_view reason);
  /// Ends recording: copies the file into the run directory, if there is one, and removes it from tmpfs. Runs by itself
  /// when the rank ends or the process exits; a process that is killed leaves its file. Problems go to standard error.
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

/// The recorder of the rank this thread works for, made on first use as TESSERA_RECORD says.
inline Recorder& recorder();

/// Gives a rank its recorder with these options rather than the environment's. Throws InvalidArgument if it has one.
TESSERA_API Recorder& open_recorder(RankContext& rank, const RecordOptions& options);

/// Writes a record for the rank this thread works for.
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

// Where the next record of this thread goes; null: the thread is past its end.
inline detail::Lease* Recorder::lease_for(Ring ring, std::uint64_t ticks) {
  detail::ThreadWriter* writer = detail::last_writer;
  if (writer == nullptr || writer->recorder != id_) [[unlikely]] {
    writer = enter_thread();
    if (writer == nullptr) return nullptr;
  }
  detail::Lease& lease = writer->leases[static_cast<std::size_t>(ring)];
  if (lease.next == lease.end || ticks >= lease.check_at) [[unlikely]]
    renew_lease(*writer, ring, ticks);
  // The next records' lines are fetched ahead: whoever takes a lock soon after would else wait for these stores.
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
