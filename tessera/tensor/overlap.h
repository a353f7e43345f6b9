// Tests for shared memory between tensors. They compare addresses, not storages: external memory may be wrapped twice.
// Internal to the library: checks of operators that write, and of leaves of the tape. Pure functions of the handles.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "tessera/tensor/tensor.h"

namespace tessera::tensor::detail {

/// Returns true if both are the same elements under the same shape and strides; false for tensors without elements.
bool is_same_view(const Tensor& a, const Tensor& b);
/// Returns true if the byte ranges from the first to the last element overlap.
bool may_overlap(const Tensor& a, const Tensor& b);
/// Returns true if two indices may refer to the same element.
bool has_repeated_elements(const Tensor& tensor);

/// A set of tensors that finds those whose storage overlaps another, without a linear search.
class NearTensors {
 public:
  /// Refers to `tensors`, which must outlive this object; empty handles are
  /// skipped. `questions` is the expected number of queries.
  NearTensors(std::span<const Tensor> tensors, std::size_t questions)
      : tensors_(tensors), is_sorted_(questions > 8 && tensors.size() > 8) {
    if (is_sorted_) [[unlikely]]
      sort();
  }

  /// Calls `body` with every tensor whose storage overlaps that of `tensor`.
  template <class F>
  void for_each_near(const Tensor& tensor, const F& body) const {
    const std::byte* begin = tensor.storage().data();
    const std::byte* end = begin + tensor.storage().nbytes();
    if (!is_sorted_) {
      for (const Tensor& each : tensors_) {
        if (!each) continue;
        const Storage& storage = each.storage();
        if (storage.data() < end && begin < storage.data() + storage.nbytes()) body(each);
      }
      return;
    }
    // Ranges that begin before `end`, from the last down, while any of them reaches that far.
    auto at = std::lower_bound(ranges_.begin(), ranges_.end(), end,
                               [](const IndexRange& range, const std::byte* limit) { return range.begin < limit; });
    while (at != ranges_.begin()) {
      --at;
      if (at->furthest <= begin) return;
      if (begin < at->end) body(*at->tensor);
    }
  }

 private:
  struct IndexRange {
    const std::byte* begin;
    const std::byte* end;
    const std::byte* furthest;  // end of this and of all earlier ranges
    const Tensor* tensor;
  };
  void sort();

  std::span<const Tensor> tensors_;
  std::vector<IndexRange> ranges_;  // sorted by begin
  bool is_sorted_ = false;
};

}  // namespace tessera::tensor::detail
