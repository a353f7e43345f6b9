// The report of an active run, for a page that updates itself: `tessera view` serves it (serve.h).
//
//   page()      the report, which contains a cursor: where its reading of loss.csv and metrics.jsonl ended
//   update()    the steps after a cursor, the state of the run, and the next cursor; the page asks every few seconds
//   data()      all data of the report again: when the run ended, or when its files were replaced
//
// An update reads at most 1 MiB after each cursor, so its work and memory do not grow with the run. The state of the
// ranks is read at most once per second, and for at most a quarter of the time, for all readers together.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tessera/base/export.h"

namespace tessera::analysis {

/// Source of a page that updates itself. Not thread-safe.
class TESSERA_API LiveReport {
 public:
  /// Reads nothing yet.
  explicit LiveReport(std::string directory);
  ~LiveReport();
  LiveReport(const LiveReport&) = delete;
  LiveReport& operator=(const LiveReport&) = delete;

  /// Returns the HTML of the report. It updates itself if the run is active. Throws IoError as make_report_page() does.
  [[nodiscard]] std::string page();
  /// Returns all data of the report as JSON, with the timeline events. Throws IoError as make_report_page() does.
  [[nodiscard]] std::string data();
  /// Returns the steps after the cursor in `query`, "loss=INODE.OFFSET&metrics=INODE.OFFSET", as JSON. Throws
  /// InvalidArgument if `query` is not a cursor.
  [[nodiscard]] std::string update(std::string_view query);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::analysis
