#include "tessera/train/detail/run_directory.h"

#include <unistd.h>

#include <chrono>
#include <ctime>
#include <memory>

#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/comm/store/store.h"
#include "tessera/comm/world.h"

namespace tessera::train::detail {
namespace {

// The others may still be reading their files when rank 0 asks.
constexpr auto kPatience = std::chrono::minutes(10);

struct RunCount {
  int runs = 0;
};

std::string time_name() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &parts);
  return std::string(text) + "-" + std::to_string(::getpid());
}

std::filesystem::path chosen(const RunConfig& config) {
  if (!config.directory.empty()) return config.directory;
  const std::string& launcher = current_place().run_dir;
  return launcher.empty() ? std::filesystem::path("runs") / time_name() : std::filesystem::path(launcher);
}

std::filesystem::path make(const Config& config) {
  std::filesystem::path path = std::filesystem::absolute(chosen(config.run)).lexically_normal();
  std::error_code error;
  std::filesystem::create_directories(path, error);
  TESSERA_CHECK_AS(IoError, !error && std::filesystem::is_directory(path), "run directory '", path.string(),
                   "' cannot be made: ", error ? error.message() : "it is no directory",
                   "; give another with --run.directory");
  const std::filesystem::path file = path / "config.toml";
  TESSERA_CHECK_AS(IoError, !std::filesystem::exists(file), "run directory '", path.string(),
                   "' holds a run already (config.toml); give another with --run.directory");
  write_file(file.string(), to_toml(config));
  return path;
}

}  // namespace

RunRanks::RunRanks()
    : rank_(current_place().rank.value()),
      size_(current_place().world_size),
      run_(current_rank()->part<RunCount>([] { return std::make_shared<RunCount>(); }).runs++) {}

std::string RunRanks::key(const std::string& name) const { return "train/" + std::to_string(run_) + "/" + name; }

std::filesystem::path RunRanks::make_directory(const Config& config) const {
  if (size_ == 1) return make(config);
  if (rank_ != 0) {
    const std::string answer = comm::store()->get(key("directory"), kPatience);
    TESSERA_CHECK_AS(IoError, answer.starts_with('='), answer.substr(1));
    std::filesystem::path path = answer.substr(1);
    std::error_code ignored;  // on another machine it is another directory; who opens a file there says what is wrong
    std::filesystem::create_directories(path, ignored);
    return path;
  }
  try {
    std::filesystem::path path = make(config);
    comm::store()->set(key("directory"), "=" + path.string());
    return path;
  } catch (const Error& error) {
    comm::store()->set(key("directory"), "!" + error.message());
    throw;
  }
}

std::vector<RankNumbers> RunRanks::collect(const RankNumbers& own) const {
  std::vector<RankNumbers> all{own};
  if (rank_ != 0) {
    comm::store()->set(key("rank/" + std::to_string(rank_)), to_text(own));
    return all;
  }
  for (int rank = 1; rank < size_; ++rank)
    all.push_back(rank_numbers(comm::store()->get(key("rank/" + std::to_string(rank)), kPatience)));
  return all;
}

bool RunRanks::is_first_to_fail() const noexcept {
  if (size_ == 1) return true;
  try {
    return comm::store()->add(key("failed"), 1) == 1;
  } catch (const std::exception&) {
    return rank_ == 0;  // the store went with whoever hosts it
  }
}

void RunRanks::finish() const {
  if (size_ == 1) return;
  if (rank_ == 0) {
    comm::store()->set(key("written"), "yes");
  } else {
    (void)comm::store()->get(key("written"), kPatience);
  }
}

}  // namespace tessera::train::detail
