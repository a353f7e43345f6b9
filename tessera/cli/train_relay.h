// What the ranks of `tessera train -n N` print, on its way from the launcher to the terminal. Only rank 0 tells of the
// run, so its lines lose their prefix, and the bar that it draws, which reaches the launcher as lines, becomes a bar
// again.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <thread>

namespace tessera::cli {

/// A line of the launcher without "[0] ", in colour or not, if it is rank 0's; else as it is.
std::string_view without_prefix_of_first(std::string_view line);

/// Passes lines on between its making and its end. What is written to out() and err() comes out on stdout and stderr.
/// If the reader of stdout or stderr closes it, writes to out() or err() fail with EPIPE.
class TrainRelay {
 public:
  TrainRelay();
  /// Passes on what is left.
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
