// Relays the output of the ranks of `tessera train -n N` from the launcher to the terminal. Only rank 0 reports the
// run, so the relay removes the prefix of its lines. It also redraws the progress bar of rank 0, which reaches the
// launcher as lines.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <thread>

namespace tessera::cli {

/// Returns a line of rank 0 without its prefix "[0] ", colored or not. Returns other lines unchanged.
std::string_view without_prefix_of_first(std::string_view line);

/// Relays lines during its lifetime: text written to out() and err() is printed on stdout and stderr. If the reader of
/// stdout or stderr closes it, writes to out() or err() fail with EPIPE.
class TrainRelay {
 public:
  TrainRelay();
  /// Relays the remaining lines.
  ~TrainRelay();
  TrainRelay(const TrainRelay&) = delete;
  TrainRelay& operator=(const TrainRelay&) = delete;
  [[nodiscard]] int out() const { return out_[1]; }
  [[nodiscard]] int err() const { return err_[1]; }

 private:
  void pass_on();
  bool take(int fd, std::string& rest, std::FILE* to);
  void put(std::string_view line, std::FILE* to);

  int out_[2] = {-1, -1};
  int err_[2] = {-1, -1};
  bool is_bar_drawn_ = false;
  std::thread thread_;
};

}  // namespace tessera::cli
