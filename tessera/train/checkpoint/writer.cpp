// One thread per rank writes the copies of save(). The ranks meet three times in the store: rank 0 has created the
// directory, all have written their files, and rank 0 has renamed the checkpoint or reports a failure.
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <ctime>
#include <exception>
#include <mutex>
#include <nlohmann/json.hpp>

#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/base/rank.h"
#include "tessera/comm/store/memory_store.h"
#include "tessera/comm/world.h"
#include "tessera/train/checkpoint/checkpoint.h"
#include "tessera/train/checkpoint/detail/directory.h"
#include "tessera/train/checkpoint/detail/save_rendezvous.h"
#include "tessera/train/checkpoint/detail/shard_file.h"
#include "tessera/train/checkpoint/detail/staging.h"

namespace tessera::train {
namespace {

using detail::SavedFile;
using detail::SavedTensor;
using detail::SaveRendezvous;

// Number of writers of this rank. All ranks create them in the same order, so that the number identifies them.
struct WriterCount {
  std::atomic<int> made = 0;
};

// Values that do not change between saves as long as the tensors do not.
struct Described {
  Described(std::vector<SavedTensor> all, int world_size) : tensors(std::move(all)), ownership(tensors, world_size) {
    detail::Hasher hasher;
    const auto add = [&](const std::string& text) {
      hasher.add(std::as_bytes(std::span(text.c_str(), text.size() + 1)));
    };
    for (const SavedTensor& tensor : tensors) {
      add(tensor.name);
      add(tessera::detail::concat(tensor.dtype, tensor.shape, tensor.layout ? tensor.layout.text() : ""));
    }
    hash = hasher.hex();
  }
  Described(const Described&) = delete;  // ownership refers to the tensors
  Described& operator=(const Described&) = delete;

  std::vector<SavedTensor> tensors;
  detail::Ownership ownership;
  std::string hash;
};

struct Job {
  std::int64_t step = 0;
  std::uint64_t number = 0;
  std::shared_ptr<const Described> described;
  detail::ShardPlan plan;
  std::map<std::string, std::string> texts;
};

std::vector<SavedTensor> saved_tensors(const CheckpointState& state) {
  std::vector<SavedTensor> tensors;
  tensors.reserve(state.tensors.size());
  for (const auto& [name, tensor] : state.tensors) {
    TESSERA_CHECK(tensor, "checkpoint: '", name, "' must be a tensor");
    tensors.push_back({name, tensor.dtype(), tensor.shape(), tensor.layout()});
  }
  return tensors;
}

bool are_same(const std::vector<SavedTensor>& a, const std::vector<SavedTensor>& b) {
  return std::ranges::equal(a, b, [](const SavedTensor& x, const SavedTensor& y) {
    return x.name == y.name && x.dtype == y.dtype && x.shape == y.shape && x.layout == y.layout;
  });
}

std::string to_text(const SavedFile& file, const std::string& described) {
  return nlohmann::json{{"nbytes", file.nbytes},
                        {"header_nbytes", file.header_nbytes},
                        {"header_xxh3", file.header_hash},
                        {"tensors", described}}
      .dump();
}

}  // namespace

struct CheckpointWriter::State {
  explicit State(const CheckpointOptions& given) : options(given), place(current_place()) {
    TESSERA_CHECK(options.keep >= 1, "checkpoints: keep must be at least 1, got ", options.keep);
    TESSERA_CHECK(!options.directory.empty(), "checkpoints: directory is required");
    WriterCount& count = current_rank()->part<WriterCount>([] { return std::make_shared<WriterCount>(); });
    number = count.made.fetch_add(1);
    if (place.world_size > 1) store = comm::store();
    if (!store) store = std::make_shared<comm::MemoryStore>();
    thread = Thread("checkpoint", [this] { run(); });
  }
  ~State() {
    // During an exception: other ranks may be dead, and the wait must be short.
    auto whole = detail::Patience::kWhole;
    if (std::uncaught_exceptions() > exceptions) patience.compare_exchange_strong(whole, detail::Patience::kShort);
    {
      const std::lock_guard lock(mutex);
      is_ending = true;
    }
    changed.notify_all();
    thread.join();
  }

  void wait_until_idle() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return !job; });
  }

  // The thread: processes one job after the other.
  void run() {
    for (;;) {
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return job.has_value() || is_ending; });
        if (!job) return;
      }
      write_and_note(*job);
      {
        const std::lock_guard lock(mutex);
        job.reset();
      }
      changed.notify_all();
    }
  }

  void write_and_note(const Job& now) {
    SaveRendezvous meeting = meeting_of(now.number);
    try {
      write(now, meeting);
    } catch (const std::exception& error) {
      const auto* ours = dynamic_cast<const Error*>(&error);
      const std::string why = ours != nullptr ? ours->message() : error.what();
      const std::optional<std::string> first = meeting.fail(why);
      note_error(now.step, first.value_or(why));
      // The failing rank reports its own error.
      if (!first && (ours == nullptr || ours->kind() != ErrorKind::kAborted))
        log::error("checkpoint of step ", now.step, ": ", why);
      if (directory) {  // files of another run are not touched
        std::error_code none;
        std::filesystem::remove_all(detail::partial_of(options.directory, now.step), none);
      }
    }
  }

  void write(const Job& now, SaveRendezvous& meeting) {
    staging.wait();
    const bool is_first = place.rank == Rank(0);
    if (is_first) {
      if (!directory) directory = detail::open_directory(options.directory);
      detail::remove_leftovers(options.directory);
      detail::make_partial(options.directory, now.step);
      meeting.say("begin", "");
    } else {
      meeting.hear("begin");
    }
    const std::filesystem::path aside = detail::partial_of(options.directory, now.step);
    const SavedFile file =
        detail::write_shard((aside / detail::file_name(place.rank.value())).string(), now.described->tensors, now.plan,
                            now.step, place.rank.value(), staging.elements());
    meeting.say(tessera::detail::concat("written/", place.rank.value()), to_text(file, now.described->hash));
    if (is_first) {
      complete(now, meeting.hear_all("written"));
      meeting.say("complete", "");
      forget_before(now.number);
    } else {
      meeting.hear("complete", 2);  // longer than rank 0 waits, which then names the missing ranks
    }
    last_complete = now.step;
  }

  // All files exist: writes the index, renames the checkpoint, removes old ones.
  void complete(const Job& now, const std::vector<std::string>& written) const {
    detail::CheckpointIndex index;
    index.step = now.step;
    index.world_size = place.world_size;
    index.written_at_seconds = std::time(nullptr);
    index.tensors = now.described->tensors;
    index.texts = now.texts;
    for (std::size_t r = 0; r < written.size(); ++r) {
      const auto said = nlohmann::json::parse(written[r]);
      TESSERA_CHECK_AS(MismatchError, said["tensors"] == now.described->hash, "rank ", r,
                       " must save the same tensors as rank 0: names, shapes, dtypes and layouts, in the same order");
      index.files.push_back({said["nbytes"], said["header_nbytes"], said["header_xxh3"]});
    }
    const std::filesystem::path aside = detail::partial_of(options.directory, now.step);
    write_file((aside / detail::kIndexName).string(), detail::write_index(index), FileKind::kRun);
    detail::put_in_place(options.directory, now.step);
    detail::keep_last(options.directory, now.step, options.keep);
  }

  // Ranks that wrote for this save have received the end of the previous one.
  void forget_before(std::uint64_t save) const {
    try {
      if (save > 0) meeting_of(save - 1).forget();
    } catch (const Error& error) {  // the checkpoint is complete; old keys do not matter
      log::warn("checkpoints: cannot remove keys of an earlier save from the store: ", error.message());
    }
  }

  void note_error(std::int64_t step, const std::string& why) {
    std::string text = tessera::detail::concat("checkpoint of step ", step, " failed: ", why);
    if (last_complete) text += tessera::detail::concat("; the last valid checkpoint is of step ", *last_complete);
    const std::lock_guard lock(mutex);
    errors.push_back(std::move(text));
  }

  [[nodiscard]] SaveRendezvous meeting_of(std::uint64_t save) const {
    return {store,
            tessera::detail::concat("checkpoint/", number, '/', save),
            {.rank = place.rank.value(), .size = place.world_size, .lost = options.lost},
            options.timeout,
            patience};
  }

  CheckpointOptions options;
  RankPlace place;
  int number = 0;
  std::shared_ptr<comm::Store> store;
  std::shared_ptr<const Described> described;  // of the last save
  std::uint64_t saves = 0;
  detail::Staging staging;          // used by the thread during a job, otherwise by the caller
  std::shared_ptr<void> directory;  // on the first rank, after it was opened
  std::optional<std::int64_t> last_complete;
  std::atomic<detail::Patience> patience = detail::Patience::kWhole;
  int exceptions = std::uncaught_exceptions();  // at construction

  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Job> job;
  bool is_ending = false;
  std::vector<std::string> errors;
  Thread thread;  // last: it ends before the members it uses
};

CheckpointWriter::CheckpointWriter(const CheckpointOptions& options) : state_(std::make_unique<State>(options)) {}
CheckpointWriter::~CheckpointWriter() = default;

void CheckpointWriter::save(std::int64_t step, const CheckpointState& state) {
  State& self = *state_;
  TESSERA_CHECK(step >= 0, "checkpoint: step must be at least 0, got ", step);
  std::vector<SavedTensor> tensors = saved_tensors(state);
  if (!self.described || !are_same(self.described->tensors, tensors)) {
    detail::check_tensors(tensors, self.place.world_size);
    self.described = std::make_shared<const Described>(std::move(tensors), self.place.world_size);
  }
  Job job{step, 0, self.described,
          detail::plan_shard(self.described->tensors, self.described->ownership, step, self.place.rank.value()),
          state.texts};
  self.wait_until_idle();
  job.number = self.saves++;
  try {
    self.staging.copy(state, job.plan.pieces);
  } catch (const OutOfMemory& error) {  // the others must not wait for this rank
    self.meeting_of(job.number).fail(error.message());
    return self.note_error(step, error.message());
  }
  {
    const std::lock_guard lock(self.mutex);
    self.job = std::move(job);
  }
  self.changed.notify_all();
}

void CheckpointWriter::finish() { state_->wait_until_idle(); }

void CheckpointWriter::abandon() {
  state_->patience = detail::Patience::kNone;
  finish();
}

std::vector<std::string> CheckpointWriter::take_errors() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->errors, {});
}

}  // namespace tessera::train
