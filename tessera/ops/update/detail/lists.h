// Calls over lists of tensors: positions of arguments, checks, chunks of work, and the sharding rule.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "tessera/ops/nn/detail/rows.h"
#include "tessera/tensor/call.h"

namespace tessera::ops::detail {

/// A call whose arguments are `lists` lists of one length, then singles.
struct ListCall {
  ListCall(const tensor::Call& of, std::size_t list_count, std::size_t single_count)
      : call(of), lists(list_count), count((of.inputs.size() - single_count) / list_count) {}

  /// Returns element i of a list.
  [[nodiscard]] const Tensor& at(std::size_t list, std::size_t i) const { return call.inputs[list * count + i]; }
  /// Returns element i of a list of results.
  [[nodiscard]] const Tensor& out(std::size_t list, std::size_t i) const { return call.outputs[list * count + i]; }
  /// Returns a single argument.
  [[nodiscard]] const Tensor& single(std::size_t i) const { return call.inputs[lists * count + i]; }
  /// Throws if a tensor is missing, is not floating, or differs in shape from others of its index.
  void check() const;
  /// Kind of a single argument: a floating number, an i64 count, or a flag that is set if it is not zero.
  enum class Single : std::uint8_t { kNumber, kCount, kFlag };
  /// Throws if a single argument does not have one element or has another kind.
  void check_single(std::size_t i, bool is_optional, Single kind) const;
  /// Returns the factor rule. The dimensions of a single tensor are factors of this kind. Dimensions of several tensors
  /// must not be sharded: updates of sharded tensors run on local shards. Single arguments are replicated.
  [[nodiscard]] layout::FactorRule rule(layout::FactorKind kind, std::size_t output_lists) const;

  const tensor::Call& call;
  std::size_t lists;
  std::size_t count;
};

/// Returns the lists one after the other, for a call. It borrows the tensors of the caller.
tensor::BorrowedTensors joined(std::initializer_list<std::span<const Tensor>> lists);

/// A range of elements at one index of the lists.
struct ListPiece {
  std::int32_t place;
  std::int64_t row, begin, count;
};

/// The rows of a tensor of a list. Lists are long, so for a contiguous tensor, which is one row, only its address is
/// stored.
class ListRows {
 public:
  /// Constructs a value without rows.
  ListRows() = default;
  /// Refers to a contiguous tensor.
  explicit ListRows(const Tensor& dense) : data_(dense.data()), dtype_(dense.dtype()) {}
  /// Refers to `rows`, which must outlive this object.
  explicit ListRows(const Rows* rows) : rows_(rows), is_dense_(false) {}

  /// See Rows::read.
  template <class T>
  const T* read(std::int64_t row, std::int64_t begin, std::int64_t count, T* scratch) const {
    if (!is_dense_) [[unlikely]]
      return rows_->read(row, begin, count, scratch);
    if (is_of<T>()) return reinterpret_cast<const T*>(data_) + begin;
    load(scratch, place(begin), dtype_, 1, count);
    return scratch;
  }
  /// See Rows::begin_write.
  template <class T>
  T* begin_write(std::int64_t row, std::int64_t begin, T* scratch) const {
    if (!is_dense_) [[unlikely]]
      return rows_->begin_write(row, begin, scratch);
    return is_of<T>() ? reinterpret_cast<T*>(data_) + begin : scratch;
  }
  /// See Rows::finish.
  template <class T>
  void finish(std::int64_t row, std::int64_t begin, std::int64_t count, const T* scratch) const {
    if (!is_dense_) [[unlikely]] {
      rows_->finish(row, begin, count, scratch);
    } else if (!is_of<T>()) {
      store(scratch, place(begin), dtype_, 1, count);
    }
  }

 private:
  template <class T>
  [[nodiscard]] bool is_of() const {
    return dtype_ == ::tessera::dtype_of<T>();
  }
  [[nodiscard]] std::byte* place(std::int64_t begin) const {
    return data_ + begin * static_cast<std::int64_t>(itemsize(dtype_));
  }

  union {
    std::byte* data_ = nullptr;
    const Rows* rows_;
  };
  DType dtype_ = DType::kF32;
  bool is_dense_ = true;
};

/// The tensors of a call as rows, and the chunks of work. The closure that runs the call holds it.
struct ListWork {
  /// Rows of inputs and results: list by list, `count` of each.
  std::vector<ListRows> inputs, outputs;
  std::vector<ListPiece> pieces;
  std::vector<bool> is_double;  // by index in the lists: computed in f64
  std::deque<Rows> sparse;      // of tensors that are not contiguous, for ListRows
  std::size_t count = 0;
  std::int64_t elements = 0;  // of all chunks

  /// Splits the rows of all lists of the call at the boundaries of the tensors of the first list.
  ListWork(const ListCall& of, std::size_t output_lists);
  ListWork(const ListWork&) = delete;
  ListWork& operator=(const ListWork&) = delete;
  /// Returns the rows of element i of an input list.
  [[nodiscard]] const ListRows& in(std::size_t list, std::size_t i) const { return inputs[list * count + i]; }
  /// Returns the rows of element i of a result list.
  [[nodiscard]] const ListRows& out(std::size_t list, std::size_t i) const { return outputs[list * count + i]; }

 private:
  void add_pieces(std::size_t place, std::int64_t rows, std::int64_t length);
};

/// Calls body(piece, scratch) for each chunk on the threads of the rank. Scratch holds `buffers` chunks of float or
/// double, depending on the tensor.
template <class F>
void for_list_pieces(const ListWork& work, std::int64_t buffers, const F& body);

/// Maximum number of elements of a chunk.
inline constexpr std::int64_t kListPiece = 16384;
/// Elements that a thread processes at a time: several small tensors or a chunk of a large one. A step of this size
/// takes about 5 us, several times the cost of giving it to a thread.
inline constexpr std::int64_t kListGrain = kListPiece;

template <class F>
void for_list_pieces(const ListWork& work, std::int64_t buffers, const F& body) {
  const auto pieces = static_cast<std::int64_t>(work.pieces.size());
  const std::int64_t grain = std::max<std::int64_t>(1, pieces * kListGrain / std::max<std::int64_t>(work.elements, 1));
  parallel_for(pieces, grain, [&](std::int64_t begin, std::int64_t end) {
    // Not initialized, because contiguous tensors do not use it. An array of doubles also holds floats.
    const auto scratch = std::make_unique_for_overwrite<double[]>(static_cast<std::size_t>(buffers * kListPiece));
    for (std::int64_t i = begin; i < end; ++i) {
      const ListPiece& piece = work.pieces[static_cast<std::size_t>(i)];
      if (work.is_double[static_cast<std::size_t>(piece.place)]) {
        body(piece, scratch.get());
      } else {
        body(piece, reinterpret_cast<float*>(scratch.get()));
      }
    }
  });
}

/// A tensor of one element that is read when the work runs, or no tensor.
struct ScalarSource {
  ScalarSource() = default;
  explicit ScalarSource(const Tensor& tensor) {
    if (tensor) rows = Rows(tensor, -1);
  }
  /// Returns the element, or `otherwise` without a tensor.
  [[nodiscard]] double read(double otherwise) const {
    if (!rows.has_rows()) return otherwise;
    double one[1];
    return *rows.read(0, one);
  }

  Rows rows;
};

}  // namespace tessera::ops::detail
