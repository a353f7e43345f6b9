#include "tessera/comm/operation.h"

#include <algorithm>
#include <bit>

#include "tessera/base/error.h"
#include "tessera/comm/collectives/collective.h"

namespace tessera::comm {
namespace {

// A mixer with two multiply-and-shift rounds per word, in two lanes with different starts.
class Mixer {
 public:
  explicit Mixer(std::uint64_t seed = 0) : low_(kLow ^ seed), high_(kHigh + seed) {}
  void add(std::uint64_t word) {
    low_ = mix(low_ ^ word);
    high_ = mix(high_ + std::rotl(word, 32) + 0x9e3779b97f4a7c15);
  }
  [[nodiscard]] Fingerprint result() const { return {low_, high_}; }

 private:
  static std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93;
    return x ^ (x >> 29);
  }
  static constexpr std::uint64_t kLow = 0x243f6a8885a308d3;
  static constexpr std::uint64_t kHigh = 0x13198a2e03707344;
  std::uint64_t low_;
  std::uint64_t high_;
};

// Counts of a collective with offers differ between ranks: pairs of ranks compare them.
bool has_offers(OpKind kind) {
  const CollectiveDef* const def = find_definition(kind);
  return def != nullptr && def->offer != nullptr;
}

void add(Mixer& mixer, const Geometry& geometry) {
  mixer.add(static_cast<std::uint64_t>(geometry.sizes.size()) | static_cast<std::uint64_t>(geometry.split + 1) << 8 |
            static_cast<std::uint64_t>(geometry.concat + 1) << 16);
  mixer.add(geometry.layouts);
  for (const std::int64_t size : geometry.sizes) mixer.add(static_cast<std::uint64_t>(size));
}

template <class Numbers>
void append(std::string& text, std::string_view name, const Numbers& counts) {
  if (counts.empty()) return;
  text.append(", ").append(name).append("=[");
  for (std::size_t i = 0; i < counts.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(counts[i]);
  text += "]";
}

}  // namespace

std::string_view to_string(OpKind kind) {
  if (kind == OpKind::kSend) return "send";
  if (kind == OpKind::kRecv) return "recv";
  const CollectiveDef* const def = find_definition(kind);
  return def == nullptr ? "no operation" : def->name;
}

bool reduces(OpKind kind) {
  const CollectiveDef* const def = find_definition(kind);
  return def != nullptr && def->reduces;
}

bool has_root(OpKind kind) {
  const CollectiveDef* const def = find_definition(kind);
  return def != nullptr && def->has_root;
}

Fingerprint fingerprint(const Operation& operation, std::uint64_t group) {
  Mixer mixer(group);
  mixer.add(static_cast<std::uint64_t>(operation.kind) | static_cast<std::uint64_t>(operation.dtype) << 8 |
            static_cast<std::uint64_t>(reduces(operation.kind) ? operation.reduction.kind : Reduction::kSum) << 16 |
            static_cast<std::uint64_t>(has_root(operation.kind) ? operation.root : 0) << 32);
  mixer.add(static_cast<std::uint64_t>(operation.count));
  if (operation.reduction.kind == Reduction::kPremultiply) {
    mixer.add(std::bit_cast<std::uint64_t>(operation.reduction.factor));
  }
  if (!has_offers(operation.kind)) {
    for (const std::int64_t count : operation.in_counts) mixer.add(static_cast<std::uint64_t>(count));
    for (const std::int64_t count : operation.out_counts) mixer.add(static_cast<std::uint64_t>(count));
  } else {
    mixer.add(operation.in_counts.empty() ? 0 : 1);
  }
  for (const int target : operation.targets) mixer.add(static_cast<std::uint64_t>(target));
  if (operation.kind == OpKind::kRendezvous) mixer.add(operation.registration);
  if (operation.geometry.is_stated) add(mixer, operation.geometry);
  return mixer.result();
}

std::uint64_t digest_of_parts(const Operation& operation) {
  if (operation.in_counts.empty() && operation.out_counts.empty() && operation.targets.empty()) return 0;
  Mixer mixer;
  for (const std::int64_t count : operation.in_counts) mixer.add(static_cast<std::uint64_t>(count));
  for (const std::int64_t count : operation.out_counts) mixer.add(static_cast<std::uint64_t>(count));
  for (const int target : operation.targets) mixer.add(static_cast<std::uint64_t>(target));
  return mixer.result().low;
}

std::string text_of(const Operation& operation) {
  std::string text(to_string(operation.kind));
  if (operation.kind == OpKind::kBarrier) return text;
  text.append("(").append(to_string(operation.dtype)).append("[").append(std::to_string(operation.count)).append("]");
  if (reduces(operation.kind)) {
    text.append(", ").append(to_string(operation.reduction.kind));
    if (operation.reduction.kind == Reduction::kPremultiply) {
      text += tessera::detail::concat(" by ", operation.reduction.factor);
    }
  }
  if (has_root(operation.kind)) text.append(", root ").append(std::to_string(operation.root));
  if (operation.kind == OpKind::kSend) text.append(", to ").append(std::to_string(operation.peer));
  if (operation.kind == OpKind::kRecv) text.append(", from ").append(std::to_string(operation.peer));
  if (operation.registration != 0) text.append(", registration ").append(std::to_string(operation.registration));
  append(text, "in", operation.in_counts);
  append(text, "out", operation.out_counts);
  append(text, "to", operation.targets);
  return text + ")";
}

std::string text_of(const Geometry& geometry) {
  if (!geometry.is_stated) return "";
  std::string text = "shape [";
  for (std::size_t i = 0; i < geometry.sizes.size(); ++i) {
    text += (i == 0 ? "" : ", ") + (geometry.sizes[i] < 0 ? "?" : std::to_string(geometry.sizes[i]));
  }
  text += "]";
  if (geometry.split >= 0 && geometry.concat >= 0) {
    text.append(", dimensions ").append(std::to_string(geometry.split)).append(" to ");
    text += std::to_string(geometry.concat);
  } else if (geometry.split >= 0 || geometry.concat >= 0) {
    text.append(", dimension ").append(std::to_string(std::max(geometry.split, geometry.concat)));
  }
  return text;
}

}  // namespace tessera::comm
