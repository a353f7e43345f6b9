#include "tessera/base/probe/recorder.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>

#include "tessera/base/env.h"
#include "tessera/base/error.h"
#include "tessera/base/probe/detail/kind_registry.h"
#include "tessera/base/probe/detail/open_recorders.h"
#include "tessera/base/probe/detail/record_store.h"
#include "tessera/base/probe/detail/string_table.h"
#include "tessera/base/probe/detail/thread_rows.h"
#include "tessera/base/probe/process_identity.h"
#include "tessera/base/version.h"

namespace tessera::probe {

using tessera::detail::concat;

namespace {

constexpr std::uint64_t kLeaseSlots = 64;
constexpr std::uint64_t kMinLeases = 32;  // in a ring, so that a few threads do not lap each other immediately

void say(const RankPlace& place, const std::string& line) {
  const std::string prefix = place.world_size > 1 ? concat("tessera: rank ", place.rank, ": ") : "tessera: ";
  const std::string text = concat(prefix, line, "\n");
  std::fwrite(text.data(), 1, text.size(), stderr);
}

detail::SampleEntry sample_entry(const ClockSample& sample) {
  detail::SampleEntry entry{sample.ticks, sample.wall_ns, sample.monotonic_ns, 0};
  entry.check = detail::sample_check(entry);
  return entry;
}

struct RingPart {
  detail::RingHead* head = nullptr;
  std::uint64_t* slots = nullptr;
  std::uint64_t slot_count = 0;
  std::uint64_t lease_slots = 0;
};

RingPart make_ring(const detail::RecordStore& store, std::uint32_t number) {
  std::uint64_t nbytes = 0;
  std::byte* section = store.section(detail::SectionType::kRing, number, &nbytes);
  RingPart ring;
  ring.head = reinterpret_cast<detail::RingHead*>(section);
  ring.slots = reinterpret_cast<std::uint64_t*>(section + sizeof(detail::RingHead));
  const std::uint64_t fit = (nbytes - sizeof(detail::RingHead)) / detail::kSlotBytes;
  ring.lease_slots = std::min(kLeaseSlots, fit / kMinLeases);
  ring.slot_count = fit / ring.lease_slots * ring.lease_slots;
  ring.head->slots = ring.slot_count;
  ring.head->lease_slots = ring.lease_slots;
  return ring;
}

void fill_header(detail::FileHeader& header, const RankPlace& place, ClockSource clock) {
  const auto self = detail::this_process();
  header.version = detail::kFormatVersion;
  header.byte_order = detail::kByteOrder;
  header.pid = self.pid;
  header.process_start = self.start;
  header.pid_namespace = self.pid_namespace;
  header.rank = place.rank.value();
  header.world_size = place.world_size;
  header.clock_source = static_cast<std::uint32_t>(clock);
  header.state = static_cast<std::uint32_t>(detail::FileState::kOpen);
  header.ticks_per_second = ticks_per_second(clock);
  header.first = sample_entry(sample_clock(clock));
  header.last = header.first;
  detail::put_text(header.hostname, detail::host_name());
  detail::put_text(header.boot_id, detail::boot_id());
  detail::put_text(header.build, concat("tessera ", version(), ", ", build_info().compiler));
}

std::string run_directory(const RankPlace& place) { return place.run_dir.empty() ? env::run_dir() : place.run_dir; }

}  // namespace

// State that the hot path does not access.
struct Recorder::Parts {
  RankPlace place;
  std::string status;
  std::unique_ptr<detail::RecordStore> store;
  std::optional<detail::SchemaSection> schemas;
  std::optional<detail::StringTable> strings;
  std::optional<detail::TableSection> tables;
  std::optional<detail::ThreadRows> threads;
  RingPart rings[detail::kRingCount];
  std::uint64_t lease_check_ticks = 0;  // time for which a lease is trusted without a check
  std::atomic<std::uint64_t> refine_at{0};
  std::uint64_t refine_ticks = 0;  // until the next; doubles
  std::mutex refine_mutex;
  std::mutex end_mutex;  // protects the fields below
  bool has_ended = false;
  bool has_failed = false;
  bool was_copied = false;

  void make_sections(ClockSource clock);
  void note_exit(int exit_code);
};

// A process that exits with an error has failed. Without a run directory, where its file would remain, it has not.
void Recorder::Parts::note_exit(int exit_code) {
  const std::lock_guard lock(end_mutex);
  if (exit_code == 0 || store == nullptr || has_ended || has_failed || store->run_path().empty()) return;
  has_failed = true;
  detail::put_text(store->header().reason, concat("exited with ", exit_code));
  store->header().state = static_cast<std::uint32_t>(detail::FileState::kFailed);
}

void Recorder::Parts::make_sections(ClockSource clock) {
  using detail::SectionType;
  std::uint64_t nbytes = 0;
  std::byte* section = store->section(SectionType::kSchemas, 0, &nbytes);
  schemas.emplace(section, nbytes);
  schemas->follow_registry();
  section = store->section(SectionType::kStrings, 0, &nbytes);
  strings.emplace(section, nbytes);
  section = store->section(SectionType::kTables, 0, &nbytes);
  tables.emplace(store->base(), section, nbytes, clock);
  threads.emplace(*tables, clock);
  for (std::uint32_t i = 0; i < detail::kRingCount; ++i) rings[i] = make_ring(*store, i);
  const std::uint64_t rate = store->header().ticks_per_second;
  lease_check_ticks = rate / 1000;
  refine_ticks = rate / 50;
  refine_at.store(store->header().first.ticks + refine_ticks, std::memory_order_relaxed);
}

Recorder::Recorder(const RankPlace& place, const RecordOptions& options)
    : clock_(best_clock_source()), id_(detail::new_recorder_id()), parts_(std::make_unique<Parts>()) {
  Parts& parts = *parts_;
  parts.place = place;
  if (!options.is_on) {
    parts.status = "recording is off by request";
    return;
  }
  parts.store = detail::RecordStore::create(options, place, parts.status);
  if (parts.store == nullptr) {
    say(place, parts.status);
    return;
  }
  const bool is_smaller = parts.store->header().file_bytes < (options.nbytes & ~std::uint64_t{4095});
  fill_header(parts.store->header(), place, clock_);
  parts.make_sections(clock_);
  parts.store->publish();
  const std::string run_dir = run_directory(place);
  const bool is_linked = run_dir.empty() || parts.store->link_from(run_dir, parts.status);
  if (clock_ != ClockSource::kTsc) parts.status += "; the time-stamp counter is not invariant; using the system clock";
  if (is_smaller || !is_linked) say(place, parts.status);
  const auto disown = [this] {
    is_on_.store(false, std::memory_order_relaxed);
    parts_->has_ended = true;
    parts_->status = concat("recording is off: ", parts_->store->path(), " belongs to the parent process of this fork");
  };
  const auto end_process = [this](int exit_code) {
    parts_->note_exit(exit_code);
    end();
  };
  detail::add_open_recorder(id_, this, end_process, disown);
  is_on_.store(true, std::memory_order_relaxed);
}

Recorder::~Recorder() {
  close();
  if (tessera::detail::cached_recorder == this) tessera::detail::cached_recorder = nullptr;
}

const std::string& Recorder::status() const { return parts_->status; }

const std::string& Recorder::path() const {
  static const std::string none;
  return parts_->store != nullptr ? parts_->store->path() : none;
}

const std::string& Recorder::run_path() const {
  static const std::string none;
  return parts_->store != nullptr ? parts_->store->run_path() : none;
}

StringId Recorder::intern(std::string_view text) { return is_on() ? parts_->strings->intern(text) : StringId{}; }

detail::TableCore* Recorder::table_core(std::uint16_t kind, std::uint16_t payload_bytes, std::uint32_t rows) {
  return parts_->tables->find_or_make(kind, payload_bytes, rows);
}

std::uint64_t Recorder::slots(Ring ring) const {
  return is_on() ? parts_->rings[static_cast<std::size_t>(ring)].slot_count : 0;
}

std::uint64_t Recorder::leased(Ring ring) const {
  if (!is_on()) return 0;
  return std::atomic_ref<std::uint64_t>(parts_->rings[static_cast<std::size_t>(ring)].head->leased)
      .load(std::memory_order_relaxed);
}

std::uint64_t Recorder::enter_thread_row() { return parts_->threads->enter(); }
void Recorder::leave_thread_row(std::uint64_t row) { parts_->threads->leave(row); }

void Recorder::renew_lease(detail::ThreadWriter& writer, Ring ring, std::uint64_t ticks) {
  const RingPart& part = parts_->rings[static_cast<std::size_t>(ring)];
  detail::Lease& lease = writer.leases[static_cast<std::size_t>(ring)];
  if (ticks >= parts_->refine_at.load(std::memory_order_relaxed)) refine_clock(ticks);
  const std::atomic_ref<std::uint64_t> leased(part.head->leased);
  lease.check_at = ticks + parts_->lease_check_ticks;
  // A thread that writes rarely may hold a lease that others have almost
  // lapped: its next record would soon be overwritten.
  const bool is_fresh =
      lease.next != lease.end && leased.load(std::memory_order_relaxed) - lease.begin < part.slot_count / 2;
  if (is_fresh) return;
  lease.begin = leased.fetch_add(part.lease_slots, std::memory_order_relaxed);
  const std::uint64_t index = lease.begin % part.slot_count;
  lease.next = part.slots + index * detail::kSlotWords;
  lease.end = lease.next + part.lease_slots * detail::kSlotWords;
  lease.place = detail::slot_place(static_cast<std::uint64_t>(ring), index);
  lease.head = detail::slot_head(0, writer.thread, lease.begin / part.slot_count);
}

void Recorder::refine_clock(std::uint64_t ticks) {
  Parts& parts = *parts_;
  const std::unique_lock lock(parts.refine_mutex, std::try_to_lock);
  if (!lock.owns_lock()) return;
  const std::uint64_t most = parts.store->header().ticks_per_second * 10;
  parts.refine_ticks = std::min(parts.refine_ticks * 2, most);
  parts.refine_at.store(ticks + parts.refine_ticks, std::memory_order_relaxed);
  parts.store->header().last = sample_entry(sample_clock(clock_));
}

void Recorder::save_failure(std::string_view reason) {
  Parts& parts = *parts_;
  const std::lock_guard lock(parts.end_mutex);
  if (parts.store == nullptr || parts.has_ended) return;
  parts.has_failed = true;
  detail::FileHeader& header = parts.store->header();
  detail::put_text(header.reason, reason);
  header.state = static_cast<std::uint32_t>(detail::FileState::kFailed);
  refine_clock(read_ticks(clock_));
  if (parts.store->run_path().empty()) return;
  parts.store->copy_to_run_dir();
}

void Recorder::close() noexcept {
  detail::remove_open_recorder(id_);
  end();
}

void Recorder::end() noexcept {
  Parts& parts = *parts_;
  is_on_.store(false, std::memory_order_relaxed);
  const std::lock_guard lock(parts.end_mutex);
  if (parts.store == nullptr || parts.has_ended) return;
  parts.has_ended = true;
  try {
    refine_clock(read_ticks(clock_));
    if (!parts.has_failed) {
      parts.store->header().state = static_cast<std::uint32_t>(detail::FileState::kEnded);
    }
    const bool has_run_dir = !parts.store->run_path().empty();
    if (has_run_dir) parts.store->copy_to_run_dir();
    if (has_run_dir || !parts.has_failed) {
      parts.store->remove();
    } else {
      say(parts.place, concat("the record of the failed rank remains in ", parts.store->path()));
    }
  } catch (const std::exception& problem) {
    say(parts.place, problem.what());
  }
}

Recorder& open_recorder(RankContext& rank, const RecordOptions& options) {
  TESSERA_CHECK(rank.find_part<Recorder>() == nullptr, "open_recorder: rank ", rank.place().rank,
                " already has a recorder; call open_recorder before anything is recorded");
  return rank.part<Recorder>([&] { return std::make_shared<Recorder>(rank.place(), options); });
}

namespace detail {

Recorder& find_recorder() {
  const auto rank = current_rank();
  Recorder& found = rank->part<Recorder>([&] {
    RecordOptions options;
    try {
      options = RecordOptions::from_environment();
    } catch (const InvalidArgument& problem) {
      say(rank->place(), concat(problem.message(), "; recording with the defaults"));
    }
    // A forked child without a new position has that of its parent, whose files in the run directory must stay.
    if (has_recording_parent() && rank->place().world_size == 1) options.is_on = false;
    return std::make_shared<Recorder>(rank->place(), options);
  });
  tessera::detail::cached_recorder = &found;
  return found;
}

}  // namespace detail
}  // namespace tessera::probe
