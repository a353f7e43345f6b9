// Which tensors share memory. Addresses count, not storages: memory from outside may have been wrapped twice.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "tessera/tensor/tensor.h"

namespace tessera::tensor::detail {

/// Whether both are the same elements under the same shape and strides; never of tensors without elements.
bool is_same_view(const Tensor& a, const Tensor& b);
/// Whether the bytes from the first to the last element of each have some in common.
bool may_overlap(const Tensor& a, const Tensor& b);
/// Whether two indices may name the same element.
bool has_repeated_elements(const Tensor& tensor);

/// Some tensors, of which those are found whose storage touches another's, without looking at all of them.
class NearTensors {
 public:
  /// Of these, absent ones left out; they must outlive it. `questions`: how often it will be asked, about.
  NearTensors(std::span<const Tensor> tensors, std::size_t questions)
      : tensors_(tensors), is_sorted_(questions > 8 && tensors.size() > 8) {
    if (is_sorted_) [[unlikely]]
      sort();
  }

  /// Calls `body` with every tensor whose storage has bytes in common with that of `tensor`.
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
    // Those that begin before the end, from the last down, as long as any of them reaches that far.
    auto at = std::lower_bound(ranges_.begin(), ranges_.end(), end,
                               [](const Range& range, const std::byte* limit) { return range.begin < limit; });
    while (at != ranges_.begin()) {
      --at;
      if (at->furthest <= begin) return;
      if (begin < at->end) body(*at->tensor);
    }
  }

 private:
  struct Range {
    const std::byte* begin;
    const std::byte* end;
    const std::byte* furthest;  // end of this and of all before it
    const Tensor* tensor;
  };
  void sort();

  std::span<const Tensor> tensors_;
  std::vector<Range> ranges_;  // by begin
  bool is_sorted_ = false;
};

}  // namespace tessera::tensor::detail
