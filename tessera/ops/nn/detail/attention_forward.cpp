#include "tessera/ops/nn/detail/attention_tiles.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "tessera/ops/nn/detail/attention_operands.h"

namespace tessera::ops::detail {
namespace {

constexpr std::int64_t kTaskQueries = 256;
constexpr std::int64_t kManyTasks = 16;  // per thread: beyond this, the order of tasks hardly affects the total time

// A task is kTaskQueries queries of one head: a few panels, so that keys and values stay in a near cache.
template <class T>
class AttentionForward {
 public:
  explicit AttentionForward(const AttentionCall& of)
      : call_(of),
        e_padded_(padded_width<T>(of.e)),
        memory_({kTaskQueries * of.d, panel_ * std::max(of.d, of.e), kAttentionKeyBlock * of.d,
                 kAttentionKeyBlock * e_padded_, kAttentionKeyBlock * panel_, kTaskQueries * e_padded_, kTaskQueries,
                 kTaskQueries}),
        q_columns_(memory_.take(kTaskQueries * of.d)),
        rows_(memory_.take(panel_ * std::max(of.d, of.e))),
        k_(memory_.take(kAttentionKeyBlock * of.d)),
        v_(memory_.take(kAttentionKeyBlock * e_padded_)),
        p_(memory_.take(kAttentionKeyBlock * panel_)),
        out_(memory_.take(kTaskQueries * e_padded_)),
        max_(memory_.take(kTaskQueries)),
        sum_(memory_.take(kTaskQueries)) {}

  void run(const AttentionSequence& sequence, std::int64_t head, std::int64_t first) {
    const std::int64_t queries = std::min(kTaskQueries, sequence.queries - first);
    const KeyMask mask(call_.bias, sequence);
    start(sequence, head, first, queries, mask);
    const Interval all = mask.keys_of(first, first + queries - 1);
    const std::int64_t kv_head = head / group_of(call_);
    for (std::int64_t key = all.begin; key < all.end; key += kAttentionKeyBlock) {
      const std::int64_t keys = std::min(kAttentionKeyBlock, all.end - key);
      const std::int64_t place = sequence.first_key + key;
      const auto k = read_head_rows(call_.k, sequence.batch, kv_head, place, keys, call_.d, call_.d, k_);
      const auto v = read_head_rows(call_.v, sequence.batch, kv_head, place, keys, call_.e, e_padded_, v_);
      for (std::int64_t at = 0; at < queries; at += panel_) step(at, std::min(panel_, queries - at), key, keys, k, v);
    }
    for (std::int64_t at = 0; at < queries; at += panel_) {
      if (is_started_[index(at)] == 0) step(at, std::min(panel_, queries - at), 0, 0, {}, {});
      kernels_.finish(state(at), std::min(panel_, queries - at), e_padded_);
    }
    const std::int64_t place = sequence.first_query + first;
    store_head_rows(call_.out, sequence.batch, head, place, queries, call_.e, out_, e_padded_);
    store(max_, row_address(call_.logsumexp, sequence.batch, head, place), call_.logsumexp.dtype, call_.logsumexp.row,
          queries);
  }

 private:
  void start(const AttentionSequence& sequence, std::int64_t head, std::int64_t first, std::int64_t queries,
             const KeyMask& mask) {
    for (std::int64_t at = 0; at < queries; at += panel_) {
      const std::int64_t count = std::min(panel_, queries - at);
      const auto rows = read_head_rows(call_.q, sequence.batch, head, sequence.first_query + first + at, count, call_.d,
                                       call_.d, rows_);
      const T by = static_cast<T>(scale_of(call_) * kernels_.score_unit);
      kernels_.pack_columns(rows, count, call_.d, by, q_columns_ + at * call_.d);
      masks_[index(at)] = panel_mask(mask, first + at, count, panel_);
      is_started_[index(at)] = 0;
    }
  }

  void step(std::int64_t at, std::int64_t queries, std::int64_t key, std::int64_t keys, AttentionRows<const T> k,
            AttentionRows<const T> v) {
    PanelMask& mask = masks_[index(at)];
    if (keys > 0 && (mask.begin[0] >= key + keys || mask.end[queries - 1] <= key)) return;
    mask.block = key;
    kernels_.forward({.queries = queries,
                      .keys = keys,
                      .d = call_.d,
                      .e_padded = e_padded_,
                      .mask = &mask,
                      .q_columns = q_columns_ + at * call_.d,
                      .k = k,
                      .v = v,
                      .state = state(at),
                      .is_first = is_started_[index(at)] == 0,
                      .p = p_});
    is_started_[index(at)] = 1;
  }

  [[nodiscard]] std::size_t index(std::int64_t at) const { return static_cast<std::size_t>(at / panel_); }

  PanelState<T> state(std::int64_t at) { return {out_ + at * e_padded_, max_ + at, sum_ + at}; }

  const AttentionCall& call_;
  const AttentionKernels<T>& kernels_ = attention_kernels<T>();
  std::int64_t panel_ = kernels_.panel;
  std::int64_t e_padded_;
  AttentionMemory<T> memory_;
  T *q_columns_, *rows_, *k_, *v_, *p_, *out_, *max_, *sum_;
  // One element per panel.
  std::vector<PanelMask> masks_ = std::vector<PanelMask>(static_cast<std::size_t>(kTaskQueries / panel_));
  std::vector<char> is_started_ = std::vector<char>(masks_.size());
};

}  // namespace

template <class T>
void run_attention(const AttentionCall& call) {
  struct Task {
    AttentionSequence sequence;
    std::int64_t head, first;
    double pairs;
  };
  std::vector<Task> tasks;
  for (const AttentionSequence& sequence : sequences_of(call)) {
    const KeyMask mask(call.bias, sequence);
    for (std::int64_t head = 0; head < call.heads; ++head) {
      for (std::int64_t block = (sequence.queries - 1) / kTaskQueries; block >= 0 && sequence.queries > 0; --block) {
        const std::int64_t first = block * kTaskQueries;
        const std::int64_t last = std::min(first + kTaskQueries, sequence.queries) - 1;
        const Interval keys = mask.keys_of(first, last);
        tasks.push_back({sequence, head, first, static_cast<double>((keys.end - keys.begin) * (last + 1 - first))});
      }
    }
  }
  // Tasks of one head are adjacent, so that keys and values stay in the caches. If each thread has few tasks, the
  // largest come first, so that threads finish together.
  if (static_cast<std::int64_t>(tasks.size()) < kManyTasks * thread_budget()) {
    std::ranges::stable_sort(tasks, std::greater(), &Task::pairs);
  }
  parallel_for(static_cast<std::int64_t>(tasks.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    AttentionForward<T> forward(call);
    for (std::int64_t i = begin; i < end; ++i) {
      const Task& task = tasks[static_cast<std::size_t>(i)];
      forward.run(task.sequence, task.head, task.first);
    }
  });
}

template void run_attention<float>(const AttentionCall&);
template void run_attention<double>(const AttentionCall&);

}  // namespace tessera::ops::detail
