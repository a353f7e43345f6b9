#include "tessera/train/testing/told_run.h"

#include <fstream>
#include <sstream>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/train/checkpoint/checkpoint.h"

namespace tessera::train::testing {

std::string write_text(const std::filesystem::path& directory) {
  std::string path = (directory / "text").string();
  std::ofstream text(path);
  for (int line = 0; line < 200; ++line)
    text << "line " << line << " of a text that says " << line * line << "\n";  // words: data of the run
  return path;
}

Config told_config(const std::filesystem::path& directory) {
  Config config;
  config.model = {.width = 16, .layers = 1, .heads = 2, .kv_heads = 2, .hidden = 32, .vocabulary = 260, .sequence = 16};
  config.model.dropout = 0.1;
  config.data.files = {(directory / "text").string()};
  config.train.steps = 12;
  config.train.batch = 4;
  config.eval.every = 5;
  config.eval.samples = 4;
  config.checkpoint.every = 2;
  config.run.directory = (directory / "run").string();
  config.run.log_every = 1;
  config.run.progress = "lines";
  return config;
}

LineListener::LineListener(std::function<void(const std::string& line)> hear) : hear_(std::move(hear)) {
  file_ = ::fopencookie(this, "w", {.read = nullptr, .write = take, .seek = nullptr, .close = nullptr});
  TESSERA_CHECK_AS(IoError, file_ != nullptr, "no file to listen to");
  std::setvbuf(file_, nullptr, _IOLBF, 4096);
}

LineListener::~LineListener() { std::fclose(file_); }

ssize_t LineListener::take(void* self, const char* bytes, std::size_t count) {
  auto& listener = *static_cast<LineListener*>(self);
  listener.rest_.append(bytes, count);
  for (auto end = listener.rest_.find('\n'); end != std::string::npos; end = listener.rest_.find('\n')) {
    listener.hear_(listener.rest_.substr(0, end));
    listener.rest_.erase(0, end + 1);
  }
  return static_cast<ssize_t>(count);
}

namespace {
std::string text_of(const std::filesystem::path& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}
}  // namespace

std::map<std::string, std::string> left_by(const std::filesystem::path& run_directory) {
  std::map<std::string, std::string> left;
  left["loss.csv"] = text_of(run_directory / "loss.csv");
  const std::vector<CheckpointInfo> all = checkpoints_in(run_directory / "checkpoints");
  if (all.empty()) return left;
  left["step"] = std::to_string(all.front().step);
  left["trainer"] = checkpoint_texts(all.front()).at("trainer");
  for (const auto& entry : std::filesystem::directory_iterator(all.front().path)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("rank-")) continue;
    left[name] = text_of(entry.path());
  }
  return left;
}

std::string difference(const std::map<std::string, std::string>& got, const std::map<std::string, std::string>& want) {
  if (want.size() < 4) return "there is nothing to compare with";
  if (got.size() != want.size())
    return std::to_string(got.size()) + " things instead of " + std::to_string(want.size());
  for (const auto& [name, value] : want) {
    const auto found = got.find(name);
    if (found == got.end()) return name + " is not there";
    if (found->second != value)
      return name + " differs" +
             (value.size() < 2000 && !name.starts_with("rank-") ? ":\n" + found->second + "instead of\n" + value : "");
  }
  return {};
}

std::string wrong_lines(const std::filesystem::path& run_directory, std::int64_t steps, int ranks) {
  std::map<std::pair<std::int64_t, std::int64_t>, int> told;
  std::ifstream in(run_directory / "metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object()) return "a line that is none: " + line;
    ++told[{json.at("rank"), json.at("step")}];
  }
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::int64_t step = 1; step <= steps; ++step) {
      if (told[{rank, step}] != 1)
        return "rank " + std::to_string(rank) + " tells " + std::to_string(told[{rank, step}]) + " times of step " +
               std::to_string(step);
    }
  }
  return told.size() == static_cast<std::size_t>(steps * ranks) ? "" : "there are lines of other steps or ranks";
}

}  // namespace tessera::train::testing
