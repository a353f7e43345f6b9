#include "tessera/ops/detail/tiles.h"

#include <cstring>

#include "tessera/ops/detail/loops.h"
#include "tessera/ops/parallel.h"

namespace tessera::ops::detail {
namespace {

constexpr std::size_t kMax = Loop::kMax;
constexpr std::size_t kMaxResults = 2;
// Shorter runs are gathered into tiles, because a kernel call costs more than the copy.
constexpr std::int64_t kShortRun = 48;

// A call whose operands are numbers or contiguous in the compute type. It is small enough to be enqueued in place.
struct DenseCall {
  TileKernel kernel;
  void* operands[kMax];  // addresses; for a number, its bits
  std::int64_t numel;
  std::uint8_t count;
  std::uint8_t item;
  std::uint8_t numbers = 0;  // one bit per operand, set for numbers

  void run() const {
    parallel_for(numel, kPiece, [this](std::int64_t begin, std::int64_t end) {
      numbers == 0 ? run_whole(begin, end) : run_tiled(begin, end);
    });
  }

 private:
  void run_whole(std::int64_t begin, std::int64_t end) const {
    void* at[kMax];
    for (std::size_t o = 0; o < count; ++o) at[o] = static_cast<std::byte*>(operands[o]) + begin * item;
    kernel(at, end - begin);
  }

  void run_tiled(std::int64_t begin, std::int64_t end) const {
    alignas(64) std::byte tiles[kMax][kTile * 8];
    void* at[kMax];
    for (std::size_t o = 0; o < count; ++o) {
      if (!is_number(o)) continue;
      const std::int64_t n = std::min(kTile, end - begin);
      for (std::int64_t i = 0; i < n; ++i) std::memcpy(tiles[o] + i * item, &operands[o], item);
      at[o] = tiles[o];
    }
    for (std::int64_t i = begin; i < end; i += kTile) {
      for (std::size_t o = 0; o < count; ++o) {
        if (!is_number(o)) at[o] = static_cast<std::byte*>(operands[o]) + i * item;
      }
      kernel(at, std::min(kTile, end - i));
    }
  }

  [[nodiscard]] bool is_number(std::size_t operand) const { return (numbers >> operand & 1) != 0; }
};
static_assert(sizeof(DenseCall) <= 80, "enqueued without an allocation");

// A call with any operands.
struct TiledCall {
  struct Operand {
    std::byte* data;
    DType dtype;
    bool is_dense;     // contiguous in the compute type
    bool is_constant;  // the same element throughout
    std::byte number[8];
    [[nodiscard]] std::byte* at(std::int64_t offset) const {
      return data + offset * static_cast<std::int64_t>(itemsize(dtype));
    }
    // A closure is moved after its construction, so the address of a number is taken when it runs.
    [[nodiscard]] const std::byte* first() const { return data != nullptr ? data : number; }
  };
  TileKernel kernel;
  Compute compute;
  std::size_t results;  // the first operands are the results
  Loop loop;
  Operand operands[kMax];

  void run() const {
    switch (compute) {
      case Compute::kF32: return run_in<float>();
      case Compute::kF64: return run_in<double>();
      case Compute::kI64: return run_in<std::int64_t>();
      case Compute::kC64: return run_in<std::complex<float>>();
    }
  }

 private:
  template <class T>
  struct Tiles {
    // Declared as bytes, so that construction initializes nothing.
    alignas(64) std::byte memory[kMax][kTile * sizeof(T)];
    T* operator[](std::size_t operand) { return reinterpret_cast<T*>(memory[operand]); }
  };
  // Destination of the results of a gathered tile.
  struct Segment {
    std::int64_t offsets[kMaxResults];
    std::int64_t n;
  };

  template <class T>
  void run_in() const {
    parallel_for(loop.numel(), kPiece, [this](std::int64_t begin, std::int64_t end) {
      Tiles<T> tiles;
      for (std::size_t o = results; o < loop.operands(); ++o) {
        if (operands[o].is_constant) load(tiles[o], operands[o].first(), operands[o].dtype, 0, kTile);
      }
      loop.run() < kShortRun ? run_gathered<T>(tiles, begin, end) : run_long<T>(tiles, begin, end);
    });
  }

  template <class T>
  void run_long(Tiles<T>& tiles, std::int64_t begin, std::int64_t end) const {
    bool needs_tiles = false;
    for (std::size_t o = 0; o < loop.operands(); ++o) needs_tiles |= !operands[o].is_dense;
    loop.for_runs(begin, end, [&](const std::int64_t* offsets, std::int64_t n) {
      const std::int64_t most = needs_tiles ? kTile : n;
      for (std::int64_t i = 0; i < n; i += most) {
        const std::int64_t m = std::min(most, n - i);
        void* at[kMax];
        for (std::size_t o = 0; o < loop.operands(); ++o) {
          const Operand& operand = operands[o];
          std::byte* from = operand.at(offsets[o] + i * loop.step(o));
          at[o] = operand.is_dense ? static_cast<void*>(from) : tiles[o];
          if (o < results || operand.is_dense || operand.is_constant) continue;
          load(tiles[o], from, operand.dtype, loop.step(o), m);
        }
        kernel(at, m);
        for (std::size_t o = 0; o < results; ++o) {
          const Operand& to = operands[o];
          if (!to.is_dense) store(tiles[o], to.at(offsets[o] + i * loop.step(o)), to.dtype, loop.step(o), m);
        }
      }
    });
  }

  template <class T>
  void run_gathered(Tiles<T>& tiles, std::int64_t begin, std::int64_t end) const {
    Segment segments[kTile];
    std::size_t count = 0;
    std::int64_t filled = 0;
    const auto flush = [&] {
      void* at[kMax];
      for (std::size_t o = 0; o < loop.operands(); ++o) at[o] = tiles[o];
      kernel(at, filled);
      for (std::size_t o = 0; o < results; ++o) {
        const T* from = tiles[o];
        for (std::size_t s = 0; s < count; from += segments[s].n, ++s) {
          store(from, operands[o].at(segments[s].offsets[o]), operands[o].dtype, loop.step(o), segments[s].n);
        }
      }
      count = 0;
      filled = 0;
    };
    loop.for_runs(begin, end, [&](const std::int64_t* offsets, std::int64_t n) {
      if (filled + n > kTile) flush();
      for (std::size_t o = results; o < loop.operands(); ++o) {
        if (operands[o].is_constant) continue;
        load(tiles[o] + filled, operands[o].at(offsets[o]), operands[o].dtype, loop.step(o), n);
      }
      Segment& segment = segments[count++];
      segment.n = n;
      std::copy_n(offsets, results, segment.offsets);
      filled += n;
    });
    if (filled > 0) flush();
  }
};

void enqueue(const tensor::KernelCall& call, std::span<const TileInput> inputs, device::HostFunction body) {
  device::Access accesses[kMax];
  std::size_t count = 0;
  const auto declare = [&](const Tensor& tensor, device::AccessMode mode) {
    const ByteRange range = byte_range(tensor);
    accesses[count++] = {range.address, range.nbytes, mode};
  };
  if (call.where.context->device.is_checked()) [[unlikely]] {  // nothing else reads them
    for (const TileInput& input : inputs) {
      if (input.tensor != nullptr) declare(*input.tensor, device::AccessMode::kRead);
    }
    for (const Tensor& out : call.outputs) declare(out, device::AccessMode::kWrite);
  }
  call.stream().run(std::move(body), {.label = call.op.name(), .accesses = std::span(accesses, count)});
}

// Not inlined: the closure is large, and a contiguous call would reserve stack space for it.
[[gnu::noinline]] void launch_general(const tensor::KernelCall& call, Compute compute, TileKernel kernel,
                                      std::span<const TileInput> inputs) {
  const std::size_t results = call.outputs.size();
  const Tensor* tensors[kMax];
  for (std::size_t o = 0; o < results; ++o) tensors[o] = &call.outputs[o];
  for (std::size_t i = 0; i < inputs.size(); ++i) tensors[results + i] = inputs[i].tensor;
  TiledCall tiled{kernel, compute, results, Loop(std::span(tensors, results + inputs.size())), {}};
  const DType dtype = dtype_of(compute);
  for (std::size_t o = 0; o < results; ++o) {
    const Tensor& out = call.outputs[o];
    tiled.operands[o] = {out.data(), out.dtype(), out.dtype() == dtype && tiled.loop.step(o) == 1, false, {}};
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TiledCall::Operand& operand = tiled.operands[results + i];
    const bool is_constant = tiled.loop.is_constant(results + i);
    if (inputs[i].tensor == nullptr) {
      operand = {nullptr, dtype, false, true, {}};
      std::memcpy(operand.number, inputs[i].number, sizeof operand.number);
    } else {
      const Tensor& tensor = *inputs[i].tensor;
      const bool is_dense = !is_constant && tensor.dtype() == dtype && tiled.loop.step(results + i) == 1;
      operand = {tensor.data(), tensor.dtype(), is_dense, is_constant, {}};
    }
  }
  enqueue(call, inputs, [tiled = std::move(tiled)] { tiled.run(); });
}

}  // namespace

TileInput TileInput::of(const Scalar& number, Compute compute) {
  TileInput input;
  const auto put = [&](auto value) { std::memcpy(input.number, &value, sizeof value); };
  switch (compute) {
    case Compute::kF32: put(static_cast<float>(number.as_double())); break;
    case Compute::kF64: put(number.as_double()); break;
    case Compute::kI64: put(number.as_int64()); break;
    case Compute::kC64: put(std::complex<float>(number.as_complex())); break;
  }
  return input;
}

void launch_tiles(const tensor::KernelCall& call, Compute compute, TileKernel kernel,
                  std::span<const TileInput> inputs) {
  const Tensor& first = call.outputs[0];
  if (first.numel() == 0) return;
  const DType dtype = dtype_of(compute);
  const std::size_t item = itemsize(dtype);
  const std::size_t results = call.outputs.size();
  TESSERA_CHECK(results <= kMaxResults, call.op.name(), ": a tile kernel must have at most ", kMaxResults,
                " results, got ", results);
  DenseCall dense{
      kernel, {}, first.numel(), static_cast<std::uint8_t>(results + inputs.size()), static_cast<std::uint8_t>(item)};
  const std::size_t nbytes = static_cast<std::size_t>(dense.numel) * item;  // per operand
  device::Access accesses[kMax];
  std::size_t count = 0;
  bool is_dense = true;
  for (std::size_t o = 0; o < results; ++o) {
    const Tensor& out = call.outputs[o];
    is_dense &= out.dtype() == dtype && out.is_contiguous();
    dense.operands[o] = out.data();
    accesses[count++] = device::writes(out.data(), nbytes);
  }
  for (std::size_t i = 0; i < inputs.size() && is_dense; ++i) {
    const std::size_t operand = results + i;
    if (inputs[i].tensor == nullptr) {
      dense.numbers |= static_cast<std::uint8_t>(1U << operand);
      std::memcpy(&dense.operands[operand], inputs[i].number, 8);
      continue;
    }
    const Tensor& tensor = *inputs[i].tensor;
    is_dense = tensor.dtype() == dtype && tensor.is_contiguous() && tensor.shape() == first.shape();
    dense.operands[operand] = tensor.data();
    accesses[count++] = device::reads(tensor.data(), nbytes);
  }
  if (!is_dense) return launch_general(call, compute, kernel, inputs);
  device::HostFunction now([&dense] { dense.run(); });  // owns nothing, because most calls run immediately
  if (call.stream().try_run(now, {.label = call.op.name()})) return;
  call.stream().run([dense] { dense.run(); }, {.label = call.op.name(), .accesses = std::span(accesses, count)});
}

}  // namespace tessera::ops::detail
