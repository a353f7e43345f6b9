#include "tessera/train/generated_text.h"

#include <algorithm>
#include <utility>

#include "tessera/base/error.h"

namespace tessera::train {

GeneratedText::GeneratedText(Tokenizer tokenizer, std::vector<std::string> stops, Sink sink)
    : stream_(std::move(tokenizer)), stops_(std::move(stops)), sink_(std::move(sink)) {
  TESSERA_CHECK(std::ranges::none_of(stops_, &std::string::empty), "generate: stop strings must not be empty");
}

void GeneratedText::pass(std::size_t nbytes) {
  if (nbytes == 0) return;
  const std::string_view more = std::string_view(held_).substr(0, nbytes);
  text_ += more;
  if (sink_) sink_(more);
  held_.erase(0, nbytes);
}

bool GeneratedText::add(std::uint32_t token) {
  if (is_stopped_) return false;
  held_ += stream_.add(token);
  std::size_t stop_at = std::string::npos;
  std::size_t end = held_.size();
  for (const std::string& stop : stops_) {
    stop_at = std::min(stop_at, held_.find(stop));
    // The end of the text may begin a stop string.
    for (std::size_t length = std::min(stop.size() - 1, held_.size()); length > 0; --length) {
      if (!held_.ends_with(std::string_view(stop).substr(0, length))) continue;
      end = std::min(end, held_.size() - length);
      break;
    }
  }
  is_stopped_ = stop_at != std::string::npos;
  pass(is_stopped_ ? stop_at : end);
  return !is_stopped_;
}

void GeneratedText::finish() {
  if (is_stopped_) return;
  held_ += stream_.finish();
  pass(held_.size());
}

}  // namespace tessera::train
