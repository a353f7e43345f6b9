#include "tessera/train/generated_text.h"

#include <algorithm>
#include <utility>

#include "tessera/base/error.h"

namespace tessera::train {
namespace {

// Returns the length of the character that begins with this byte; 0 if none does.
std::size_t length_of(unsigned char first) {
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

// Returns true if the second byte can follow the first: no overlong form, no half of a surrogate pair, no number above
// U+10FFFF.
bool is_second(unsigned char first, unsigned char second) {
  if ((second & 0xc0) != 0x80) return false;
  if (first == 0xe0) return second >= 0xa0;
  if (first == 0xed) return second < 0xa0;
  if (first == 0xf0) return second >= 0x90;
  return first != 0xf4 || second < 0x90;
}

// Returns how many of the first bytes belong to one character, complete or not; 0 if the first begins none.
std::size_t prefix_length(std::string_view bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const std::size_t length = length_of(byte(0));
  std::size_t at = std::min<std::size_t>(length, 1);
  while (at < length && at < bytes.size() && (at == 1 ? is_second(byte(0), byte(1)) : (byte(at) & 0xc0) == 0x80)) {
    ++at;
  }
  return at;
}

}  // namespace

std::size_t complete_characters(std::string_view bytes) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, bytes.size()); ++back) {
    const std::string_view last = bytes.substr(bytes.size() - back);
    const std::size_t length = length_of(static_cast<unsigned char>(last[0]));
    if (length > back && prefix_length(last) == back) return bytes.size() - back;
  }
  return bytes.size();
}

std::string as_valid_utf8(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const std::size_t count = prefix_length(bytes);
    if (count > 0 && count == length_of(static_cast<unsigned char>(bytes[0]))) {
      out += bytes.substr(0, count);
    } else {
      out += "\xef\xbf\xbd";
    }
    bytes.remove_prefix(std::max<std::size_t>(count, 1));
  }
  return out;
}

GeneratedText::GeneratedText(Tokenizer tokenizer, std::vector<std::string> stops, Sink sink)
    : tokenizer_(std::move(tokenizer)), stops_(std::move(stops)), sink_(std::move(sink)) {
  TESSERA_CHECK(std::ranges::none_of(stops_, &std::string::empty), "generate: stop strings must not be empty");
}

// Passes the bytes before `end`. A character that is not complete stays, unless nothing follows.
void GeneratedText::pass(std::size_t end, bool is_last) {
  std::string_view more = std::string_view(bytes_).substr(passed_, end - passed_);
  if (!is_last) more = more.substr(0, complete_characters(more));
  if (more.empty()) return;
  passed_ += more.size();
  const std::string valid = as_valid_utf8(more);
  text_ += valid;
  if (sink_) sink_(valid);
}

bool GeneratedText::add(std::uint32_t token) {
  if (is_stopped_) return false;
  tokens_.push_back(token);
  bytes_ = tokenizer_.decode(tokens_);
  if (bytes_.size() < passed_) return true;  // a tokenizer that replaces incomplete characters
  std::size_t end = bytes_.size();
  for (const std::string& stop : stops_) {
    const std::size_t found = bytes_.find(stop, passed_);
    if (found == std::string::npos) continue;
    end = std::min(end, found);
    is_stopped_ = true;
  }
  if (is_stopped_) {
    bytes_.resize(end);
    pass(end, true);
    return false;
  }
  for (const std::string& stop : stops_) {  // the end of the text may begin a stop string
    for (std::size_t length = std::min(stop.size() - 1, bytes_.size() - passed_); length > 0; --length) {
      if (!bytes_.ends_with(std::string_view(stop).substr(0, length))) continue;
      end = std::min(end, bytes_.size() - length);
      break;
    }
  }
  pass(end, false);
  return true;
}

void GeneratedText::finish() { pass(bytes_.size(), true); }

}  // namespace tessera::train
