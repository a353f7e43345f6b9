#include "tessera/ops/nn/detail/rope_angles.h"

#include <algorithm>
#include <cmath>
#include <list>
#include <mutex>
#include <numbers>

#include "tessera/ops/detail/rows_per_piece.h"
#include "tessera/ops/parallel.h"

namespace tessera::ops::detail {
namespace {

constexpr std::size_t kMaxTables = 8;
constexpr std::size_t kMaxBytes = std::size_t{16} << 20;  // limit of a cached table

// Cache key of a table: the attributes without those that only affect its use.
struct Key {
  RopeAttributes how;
  std::int64_t width;
  std::int64_t sequence;

  [[nodiscard]] bool is(const RopeAttributes& other, std::int64_t of_width, std::int64_t of_sequence) const {
    return width == of_width && sequence == of_sequence && how.base == other.base && how.factor == other.factor &&
           how.original_context == other.original_context && how.low_turns == other.low_turns &&
           how.high_turns == other.high_turns && how.offset == other.offset && how.index == other.index;
  }
};

template <class T>
class Tables {
 public:
  // Never destroyed: threads may outlive main.
  static Tables& get() {
    static auto* only = new Tables;
    return *only;
  }
  AngleTable<T> find(const RopeAttributes& how, std::int64_t width, std::int64_t sequence) {
    const std::lock_guard lock(mutex_);
    for (auto at = kept_.begin(); at != kept_.end(); ++at) {
      if (!at->key.is(how, width, sequence)) continue;
      kept_.splice(kept_.begin(), kept_, at);
      return at->table;
    }
    return nullptr;
  }
  // Two threads that miss compute equal tables; both remain cached until evicted.
  void keep(Key key, AngleTable<T> table) {
    const std::lock_guard lock(mutex_);
    kept_.push_front({std::move(key), std::move(table)});
    if (kept_.size() > kMaxTables) kept_.pop_back();
  }

 private:
  struct Entry {
    Key key;
    AngleTable<T> table;
  };
  std::mutex mutex_;
  std::list<Entry> kept_;  // most recently used first
};

}  // namespace

std::vector<double> rope_frequencies(const RopeAttributes& how, std::int64_t width) {
  std::vector<double> all;
  for (std::int64_t i = 0; i < width / 2; ++i) {
    const double frequency = std::pow(how.base, -2.0 * static_cast<double>(i) / static_cast<double>(width));
    double share = 1;  // weight of the slowed angle
    if (how.original_context > 0) {
      const double turns = static_cast<double>(how.original_context) * frequency / (2 * std::numbers::pi);
      share = std::clamp((how.high_turns - turns) / (how.high_turns - how.low_turns), 0.0, 1.0);
    }
    all.push_back(frequency * (share / how.factor + 1 - share));
  }
  return all;
}

template <class T>
AngleTable<T> angles_of_positions(const RopeAttributes& how, std::int64_t width, std::int64_t count,
                                  const std::function<std::int64_t(std::int64_t)>& position) {
  const std::vector<double> frequency = rope_frequencies(how, width);
  const auto pairs = static_cast<std::int64_t>(frequency.size());
  auto table = std::make_shared<std::vector<T>>(static_cast<std::size_t>(2 * pairs * count));
  parallel_for(count, rows_per_piece(8 * pairs), [&](std::int64_t begin, std::int64_t end) {
    T* at = table->data() + 2 * pairs * begin;
    for (std::int64_t i = begin; i < end; ++i, at += 2 * pairs) {
      const auto turns = static_cast<double>(position(i));
      for (std::int64_t pair = 0; pair < pairs; ++pair) {
        const double angle = turns * frequency[static_cast<std::size_t>(pair)];
        at[pair] = static_cast<T>(std::cos(angle));  // in double, rounded once
        at[pairs + pair] = static_cast<T>(std::sin(angle));
      }
    }
  });
  return table;
}

template <class T>
AngleTable<T> angles_of_sequence(const RopeAttributes& how, std::int64_t width, std::int64_t sequence) {
  if (AngleTable<T> known = Tables<T>::get().find(how, width, sequence)) return known;
  AngleTable<T> made = angles_of_positions<T>(how, width, sequence, [&](std::int64_t i) {
    return how.offset + (how.index.empty() ? i : how.index[0].global(i));
  });
  if (made->size() * sizeof(T) <= kMaxBytes) Tables<T>::get().keep({how, width, sequence}, made);
  return made;
}

template AngleTable<float> angles_of_sequence<float>(const RopeAttributes&, std::int64_t, std::int64_t);
template AngleTable<double> angles_of_sequence<double>(const RopeAttributes&, std::int64_t, std::int64_t);
template AngleTable<float> angles_of_positions<float>(const RopeAttributes&, std::int64_t, std::int64_t,
                                                      const std::function<std::int64_t(std::int64_t)>&);
template AngleTable<double> angles_of_positions<double>(const RopeAttributes&, std::int64_t, std::int64_t,
                                                        const std::function<std::int64_t(std::int64_t)>&);

}  // namespace tessera::ops::detail
