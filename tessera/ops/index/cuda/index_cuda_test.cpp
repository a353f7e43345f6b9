// Operators at indices on a GPU have the bits of the host: every dtype, duplicates, sorts in one and in many blocks,
// shards, replays of a graph, and indices out of range.
#include "tessera/ops/index/index.h"

#include <gmock/gmock.h>

#include "tessera/ops/create/create.h"
#include "tessera/ops/create/random.h"
#include "tessera/ops/nn/paged_attention.h"
#include "tessera/ops/pointwise/pointwise.h"
#include "tessera/ops/shape/arrange.h"
#include "tessera/ops/shape/shape.h"
#include "tessera/ops/testing/on_cuda.h"

namespace tessera::ops {
namespace {

using testing::expect_same_bits;

constexpr DType kDTypes[] = {DType::kF32, DType::kBF16, DType::kF16, DType::kF64, DType::kI64, DType::kI8, DType::kC64};

Tensor numbers(const Shape& shape, DType dtype) { return cast(mul(randn(shape), 20.0), dtype); }

class IndexOnCuda : public testing::OnCuda {
 protected:
  [[nodiscard]] Tensor integers(const Shape& shape, std::int64_t below, DType dtype = DType::kI64) {
    return testing::to_tensor(testing::integers(random_, shape, 0, below).value, dtype);
  }
  /// Expects the same bits from `body` on the host and on the GPU.
  template <class F, class... T>
  void expect_host_bits(const F& body, const T&... inputs) const {
    expect_same_bits(here(contiguous(body(there(inputs)...))), contiguous(body(inputs...)));
  }

  testing::Random random_{3};
};

TEST_F(IndexOnCuda, EmbeddingTakesRowsOfAnyWidth) {
  for (const DType dtype : kDTypes) {
    for (const std::int64_t width : {1, 3, 16, 130, 1024}) {
      for (const DType index_dtype : {DType::kI64, DType::kI32, DType::kU8}) {
        const Tensor weight = numbers({50, width}, dtype);
        const Tensor index = integers({4, 9}, 50, index_dtype);
        expect_host_bits(embedding, weight, index);
        expect_host_bits([](const Tensor& w, const Tensor& i) { return embedding(w, transpose(i, 0, 1)); }, weight,
                         index);
      }
    }
  }
}

TEST_F(IndexOnCuda, TakesSlicesAndElements) {
  for (const DType dtype : kDTypes) {
    const Tensor x = numbers({40, 33, 24}, dtype);
    for (std::int64_t dim = 0; dim < 3; ++dim) {
      const Tensor some = integers({3, 70}, x.size(dim));
      expect_host_bits([&](const Tensor& t, const Tensor& i) { return index_select(t, dim, i); }, x, some);
      expect_host_bits([&](const Tensor& t, const Tensor& i) { return index_select(transpose(t, 0, 2), 2 - dim, i); },
                       x, some);
      tensor::IntList sizes = {30, 33, 20};
      sizes[static_cast<std::size_t>(dim)] = 77;
      const Tensor each = integers(Shape(std::span<const std::int64_t>(sizes)), x.size(dim));
      expect_host_bits([&](const Tensor& t, const Tensor& i) { return gather(t, dim, i); }, x, each);
    }
  }
  expect_host_bits([](const Tensor& i) { return one_hot(i, 17); }, integers({5, 300}, 17));
  expect_host_bits([](const Tensor& i) { return one_hot(i, 3); }, integers({}, 3));
}

TEST_F(IndexOnCuda, TheLastOfSeveralItemsIsWritten) {
  for (const DType dtype : kDTypes) {
    for (const std::int64_t length : {1, 10, 64, 65, 5000}) {
      for (std::int64_t dim = 0; dim < 2; ++dim) {
        const Tensor x = numbers({50, 51}, dtype);
        const Shape shape = dim == 0 ? Shape({length, 40}) : Shape({40, length});
        const Tensor index = integers(shape, x.size(dim));
        const Tensor source = numbers(shape, dtype);
        SCOPED_TRACE(tessera::detail::concat(dtype, " ", shape, " along ", dim));
        expect_host_bits([&](const auto& t, const auto& i, const auto& s) { return scatter(t, dim, i, s); }, x, index,
                         source);
        expect_host_bits([&](const auto& t, const auto& i) { return scatter(t, dim, i, 3); }, x, index);
      }
    }
  }
}

TEST_F(IndexOnCuda, AddsSlicesInTheOrderOfTheIndex) {
  for (const DType dtype : kDTypes) {
    struct Sizes {
      std::int64_t count, rows, width;
    };
    for (const Sizes& sizes : std::initializer_list<Sizes>{
             {0, 5, 8}, {1, 1, 1}, {7, 5, 3}, {2048, 300, 8}, {2049, 300, 16}, {5000, 70001, 8}, {20000, 2, 24}}) {
      const auto [count, rows, width] = sizes;
      SCOPED_TRACE(tessera::detail::concat(dtype, " ", count, " places, ", rows, " rows of ", width));
      const Tensor index = integers({count}, rows);
      const Tensor source = numbers({count, width}, dtype);
      const Tensor x = numbers({rows, width}, dtype);
      expect_host_bits([&](const auto& s, const auto& i) { return index_sum(s, 0, i, sizes.rows); }, source, index);
      expect_host_bits([&](const auto& t, const auto& i, const auto& s) { return index_add(t, 0, i, s); }, x, index,
                       source);
      expect_host_bits([&](const auto& t, const auto& i,
                           const auto& s) { return index_add(transpose(t, 0, 1), 1, i, transpose(s, 0, 1)); },
                       x, index, source);
    }
    expect_host_bits([](const auto& s, const auto& i) { return index_sum(s, 1, transpose(i, 0, 1), 9); },
                     numbers({5, 60, 70, 16}, dtype), integers({70, 60}, 9, DType::kI32));
    expect_host_bits([](const auto& s, const auto& i) { return index_sum(s, 0, i, 4); }, numbers({6}, dtype),
                     integers({}, 4));
  }
}

TEST_F(IndexOnCuda, AddsElementsInTheOrderOfTheIndex) {
  for (const DType dtype : kDTypes) {
    for (const std::int64_t length : {1, 10, 64, 65, 300, 5000}) {
      for (std::int64_t dim = 0; dim < 2; ++dim) {
        const Tensor x = numbers({50, 51}, dtype);
        const Shape shape = dim == 0 ? Shape({length, 40}) : Shape({40, length});
        const Tensor index = integers(shape, 50);
        const Tensor source = numbers(shape, dtype);
        SCOPED_TRACE(tessera::detail::concat(dtype, " ", shape, " along ", dim));
        expect_host_bits([&](const auto& t, const auto& i, const auto& s) { return scatter_add(t, dim, i, s); }, x,
                         index, source);
        expect_host_bits([&](const auto& s, const auto& i) { return scatter_sum(s, dim, i, 50); }, source, index);
      }
    }
  }
}

TEST_F(IndexOnCuda, ShardsTakeAndAddTheirRows) {
  const layout::IndexMap map{.offset = 4, .block = 3, .levels = {{.count = 4, .stride = 8}}};
  const Tensor weight = numbers({12, 16}, DType::kF32);
  const Tensor index = integers({5000}, 40);
  expect_host_bits(
      [&](const auto& w, const auto& i) {
        return tensor::call(tensor::find_op("embedding"), {w, i}, EmbeddingAttributes{40, map});
      },
      weight, index);
  expect_host_bits(
      [&](const auto& w, const auto& i) {
        return tensor::call(tensor::find_op("index_select"), {w, i}, IndexSliceAttributes{0, 40, map});
      },
      weight, index);
  const Tensor source = numbers({5000, 16}, DType::kF32);
  expect_host_bits(
      [&](const auto& s, const auto& i) {
        return tensor::call(tensor::find_op("index_sum"), {s, i, Tensor()}, IndexSumAttributes{0, 40, map});
      },
      source, index);
  expect_host_bits(
      [&](const auto& i) {
        return tensor::call(tensor::find_op("one_hot"), {i}, OneHotAttributes{40, map});
      },
      index);
}

TEST_F(IndexOnCuda, SumsAreEqualInEveryRunAndReplay) {
  const Tensor index = there(integers({50000}, 1000));
  const Tensor source = there(randn({50000, 24}));
  const Tensor elements = there(randn({50000}));
  const auto sums = [&] { return std::pair(index_sum(source, 0, index, 1000), scatter_sum(elements, 0, index, 1000)); };
  const auto [slices, single] = sums();
  const Tensor want = here(slices);
  const Tensor want_single = here(single);
  for (int i = 0; i < 20; ++i) {
    const auto [again, again_single] = sums();
    expect_same_bits(here(again), want);
    expect_same_bits(here(again_single), want_single);
  }
  std::pair<Tensor, Tensor> out;
  const memory::CapturedGraph graph = captured([&] { out = sums(); });
  for (const device::NodeInfo& node : graph.graph().nodes()) {
    EXPECT_NE(node.kind, device::NodeKind::kHost) << "a step waits for the host in " << node.label;
  }
  for (int replay = 0; replay < 2; ++replay) {
    graph.replay(stream());
    expect_same_bits(here(out.first), want);
    expect_same_bits(here(out.second), want_single);
  }
}

TEST_F(IndexOnCuda, SamplesTheClassesOfTheHost) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
    for (const std::int64_t classes : {1, 31, 32, 33, 1000, 50257}) {
      // Some classes, and the last ones, have the probability 0.
      const Tensor p = clamp_min(add(cast(rand({5, classes}), dtype), -0.3), 0.0);
      const Tensor positive = cat({full({5, 1}, 0.5, {.dtype = dtype}), p, zeros({5, 3}, {.dtype = dtype})}, 1);
      expect_host_bits(sample_index, positive, rand({5, 200}));
    }
  }
}

TEST_F(IndexOnCuda, WritesRowsIntoPages) {
  const Tensor tables = testing::to_tensor(testing::Array(Shape({2, 3}), {1, 4, 0, 5, 2, 3}), DType::kI64);
  const Tensor starts = testing::to_tensor(testing::Array(Shape({2}), {2, 6}), DType::kI64);
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
    for (const std::int64_t width : {4, 64, 65}) {
      expect_host_bits(
          [](const auto& pages, const auto& rows, const auto& where, const auto& first) {
            const Tensor into = narrow(pages, 3, 0, pages.size(3) - 3);
            write_pages_(into, transpose(rows, 1, 2), where, first);
            return pages;
          },
          numbers({6, 3, 4, width + 3}, dtype), numbers({2, 5, 3, width}, dtype), tables, starts);
    }
  }
}

// Expects an error of `call` at the next wait, then none.
template <class F>
void expect_rejected(const device::Stream& on, const std::string& text, const F& call) {
  const tensor::StreamScope scope(on);
  call();
  try {
    on.synchronize();
    ADD_FAILURE() << "no error: " << text;
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr(text));
  }
  on.reset_error();
  on.synchronize();
}

TEST_F(IndexOnCuda, AnIndexOutOfRangeIsAnErrorAtTheNextWait) {
  const device::Stream side = gpu_.create_stream({.name = "side"});
  const Tensor x = there(randn({10, 4}));
  for (const double bad : {10.0, -1.0}) {
    testing::Array values(Shape({3}), 2);
    values.values[1] = bad;
    const Tensor index = there(testing::to_tensor(values, DType::kI64));
    const Tensor each = there(testing::to_tensor(testing::Array(Shape({1, 4}), bad), DType::kI64));
    const Tensor row = there(randn({1, 4}));
    const Tensor rows = there(randn({3, 4}));
    gpu_.synchronize();
    const std::string range =
        ": index must be in [0, 10) along dimension 0, got " + std::to_string(static_cast<int>(bad));
    expect_rejected(side, "embedding" + range, [&] { (void)embedding(x, index); });
    expect_rejected(side, "index_select" + range, [&] { (void)index_select(x, 0, index); });
    expect_rejected(side, "index_add" + range, [&] { (void)index_add(x, 0, index, rows); });
    expect_rejected(side, "index_sum" + range, [&] { (void)index_sum(rows, 0, index, 10); });
    expect_rejected(side, "gather" + range, [&] { (void)gather(x, 0, each); });
    expect_rejected(side, "scatter" + range, [&] { (void)scatter(x, 0, each, row); });
    expect_rejected(side, "scatter_add" + range, [&] { (void)scatter_add(x, 0, each, row); });
    expect_rejected(side, "scatter_sum" + range, [&] { (void)scatter_sum(row, 0, each, 10); });
    expect_rejected(side, "one_hot: index must be in [0, 10)", [&] { (void)one_hot(index, 10); });
  }
}

TEST_F(IndexOnCuda, AReplayReportsAnIndexOutOfRange) {
  const device::Stream side = gpu_.create_stream({.name = "side"});
  const Tensor x = there(randn({10, 4}));
  const Tensor index = there(testing::to_tensor(testing::Array(Shape({3}), 2), DType::kI64));
  (void)embedding(x, index);  // loads the kernel
  gpu_.synchronize();
  memory::CapturedGraph graph;
  {
    const tensor::StreamScope scope(side);
    memory::GraphCapture capture(memory::Allocator::of(gpu_), side);
    (void)embedding(x, index);
    graph = capture.end();
  }
  EXPECT_EQ(graph.graph().nodes().size(), 1U) << "no node of the host";
  graph.replay(side);
  side.synchronize();
  copy_(index, testing::to_tensor(testing::Array(Shape({3}), 10), DType::kI64));
  gpu_.synchronize();
  expect_rejected(side, "embedding: index must be in [0, 10)", [&] { graph.replay(side); });
}

TEST_F(IndexOnCuda, OtherRejectedValuesAreReported) {
  const device::Stream side = gpu_.create_stream({.name = "side"});
  const Tensor u = there(rand({1, 2}));
  const auto of = [&](double value) {
    return there(testing::to_tensor(testing::Array(Shape({1, 3}), value), DType::kF32));
  };
  const Tensor negative = of(-1);
  const Tensor none = of(0);
  const auto list = [&](const Shape& shape, double value) {
    return there(testing::to_tensor(testing::Array(shape, value), DType::kI64));
  };
  const Tensor pages = there(randn({2, 1, 4, 8}));
  const Tensor rows = there(randn({1, 1, 2, 8}));
  const Tensor first_page = list({1, 2}, 0);
  const Tensor no_page = list({1, 2}, 2);
  const Tensor start = list({1}, 0);
  const Tensor before = list({1}, -1);
  const Tensor late = list({1}, 7);
  gpu_.synchronize();
  expect_rejected(side, "must be finite and at least 0, got -1", [&] { (void)sample_index(negative, u); });
  expect_rejected(side, "at least one of the 3 probabilities", [&] { (void)sample_index(none, u); });
  expect_rejected(side, "write_pages: pages must be in [0, 2), got 2",
                  [&] { write_pages_(pages, rows, no_page, start); });
  expect_rejected(side, "write_pages: starts must be at least 0, got -1",
                  [&] { write_pages_(pages, rows, first_page, before); });
  expect_rejected(side, "write_pages: tables must have 3 columns",
                  [&] { write_pages_(pages, rows, first_page, late); });
}

}  // namespace
}  // namespace tessera::ops
