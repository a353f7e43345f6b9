#include "tessera/tensor/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <ostream>
#include <utility>
#include <vector>

#include "tessera/base/rank.h"
#include "tessera/tensor/detail/host_elements.h"

namespace tessera::tensor {
namespace {

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Returns a real number of any floating dtype, widened exactly.
double load_real(DType dtype, const std::byte* from) {
  switch (dtype) {
    case DType::kF64: return load<double>(from);
    case DType::kF32: return static_cast<double>(load<float>(from));
    case DType::kF16: return static_cast<double>(static_cast<float>(load<f16>(from)));
    case DType::kBF16: return static_cast<double>(static_cast<float>(load<bf16>(from)));
    case DType::kF8E4M3: return static_cast<double>(static_cast<float>(load<f8e4m3>(from)));
    default: return static_cast<double>(static_cast<float>(load<f8e5m2>(from)));
  }
}

std::string whole_text(DType dtype, const std::byte* from) {
  switch (dtype) {
    case DType::kI64: return std::to_string(load<std::int64_t>(from));
    case DType::kI32: return std::to_string(load<std::int32_t>(from));
    case DType::kI16: return std::to_string(load<std::int16_t>(from));
    case DType::kI8: return std::to_string(load<std::int8_t>(from));
    case DType::kU64: return std::to_string(load<std::uint64_t>(from));
    case DType::kU32: return std::to_string(load<std::uint32_t>(from));
    case DType::kU16: return std::to_string(load<std::uint16_t>(from));
    case DType::kU8: return std::to_string(load<std::uint8_t>(from));
    default: return load<std::uint8_t>(from) != 0 ? "true" : "false";
  }
}

// The common format of a block of real numbers.
class RealFormat {
 public:
  RealFormat(const std::vector<double>& values, int precision) {
    double least = INFINITY;
    double most = 0;
    for (const double value : values) {
      if (!std::isfinite(value) || value == 0) continue;
      least = std::min(least, std::abs(value));
      most = std::max(most, std::abs(value));
    }
    is_scientific_ = most >= 1e8 || least < std::pow(10, -precision);
    for (const double value : values) {
      if (std::isfinite(value)) decimals_ = std::max(decimals_, needed(value, precision));
    }
    decimals_ = std::min(std::max(decimals_, 1), precision);
  }

  [[nodiscard]] std::string text(double value) const {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
    return format(value, decimals_);
  }

 private:
  [[nodiscard]] std::string format(double value, int decimals) const {
    return is_scientific_ ? fmt::format("{:.{}e}", value, decimals) : fmt::format("{:.{}f}", value, decimals);
  }
  // Returns the number of decimals without trailing zeros.
  [[nodiscard]] int needed(double value, int precision) const {
    std::string text = format(value, precision);
    text.resize(std::min(text.find('e'), text.size()));
    const std::size_t point = text.find('.');
    if (point == std::string::npos) return 0;
    return static_cast<int>(text.find_last_not_of('0') - point);
  }

  bool is_scientific_ = false;
  int decimals_ = 0;
};

// Returns the texts of the numbers at these addresses, in one format.
std::vector<std::string> cell_texts(DType dtype, const std::vector<const std::byte*>& places, int precision) {
  std::vector<std::string> texts;
  texts.reserve(places.size());
  if (!is_floating(dtype) && !is_complex(dtype)) {
    for (const std::byte* place : places) texts.push_back(whole_text(dtype, place));
    return texts;
  }
  const DType part = real_of(dtype);
  std::vector<double> real;
  std::vector<double> imaginary;
  for (const std::byte* place : places) {
    real.push_back(load_real(part, place));
    if (is_complex(dtype)) imaginary.push_back(load_real(part, place + itemsize(part)));
  }
  const RealFormat format(real, precision);
  const RealFormat imaginary_format(imaginary, precision);
  for (std::size_t i = 0; i < real.size(); ++i) {
    std::string text = format.text(real[i]);
    if (is_complex(dtype)) {
      const std::string second = imaginary_format.text(imaginary[i]);
      text += (second.starts_with('-') ? "" : "+") + second + "i";
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

// Writes the elements of one tensor as nested brackets.
class Block {
 public:
  Block(const detail::HostElements& elements, const PrintOptions& options)
      : tensor_(elements.tensor()),
        edge_(tensor_.numel() > options.threshold ? std::max<std::int64_t>(options.edge_items, 1) : tensor_.numel()),
        line_width_(static_cast<std::size_t>(std::max(options.line_width, 1))) {
    std::vector<const std::byte*> places;
    find_places(0, elements.first(), places);
    cells_ = cell_texts(tensor_.dtype(), places, std::clamp(options.precision, 0, 17));
    std::size_t width = 0;
    for (const std::string& cell : cells_) width = std::max(width, cell.size());
    if (tensor_.ndim() > 0) {
      for (std::string& cell : cells_) cell.insert(0, width - cell.size(), ' ');
    }
  }

  [[nodiscard]] std::string text() {
    next_ = 0;
    std::string text;
    append(text, 0);
    return text;
  }

 private:
  // Calls `shown(index)` for each visible index, and `skipped()` for a gap.
  template <class Shown, class Skipped>
  void each(std::size_t dim, Shown shown, Skipped skipped) const {
    const std::int64_t size = tensor_.shape()[dim];
    const bool is_elided = edge_ < size - edge_;
    for (std::int64_t i = 0; i < (is_elided ? edge_ : size); ++i) shown(i);
    if (!is_elided) return;
    skipped();
    for (std::int64_t i = size - edge_; i < size; ++i) shown(i);
  }

  void find_places(std::size_t dim, const std::byte* at, std::vector<const std::byte*>& places) const {
    if (dim == tensor_.shape().size()) {
      places.push_back(at);
      return;
    }
    const std::int64_t step = tensor_.strides()[dim] * static_cast<std::int64_t>(itemsize(tensor_.dtype()));
    each(
        dim, [&](std::int64_t i) { find_places(dim + 1, at + i * step, places); }, [] {});
  }

  void append(std::string& text, std::size_t dim) {
    if (dim == tensor_.shape().size()) {
      text += cells_[next_++];
      return;
    }
    const bool is_row = dim + 1 == tensor_.shape().size();
    const std::size_t line_start = text.rfind('\n') + 1;  // 0 without a line break
    std::size_t used = text.size() - line_start + 1;
    text += '[';
    bool is_first = true;
    const auto separate = [&](std::size_t width) {
      const bool must_wrap = is_row && !is_first && used + 2 + width + 1 > line_width_;
      if (!is_first) {
        text += ',';
        if (!is_row) {
          text.append(tensor_.shape().size() - dim - 1, '\n').append(dim + 1, ' ');
        } else if (must_wrap) {
          text.append(1, '\n').append(dim + 1, ' ');
          used = dim + 1;
        } else {
          text += ' ';
          used += 2;
        }
      }
      used += width;
      is_first = false;
    };
    each(
        dim,
        [&](std::int64_t) {
          separate(is_row ? cells_[next_].size() : 0);
          append(text, dim + 1);
        },
        [&] {
          separate(3);
          text += "...";
        });
    text += ']';
  }

  const Tensor& tensor_;
  std::int64_t edge_;
  std::size_t line_width_;
  std::vector<std::string> cells_;
  std::size_t next_ = 0;
};

std::string with_values(const std::string& heading, const Tensor& tensor, const PrintOptions& options) {
  if (!tensor.storage().has_values()) return heading + " without values";
  const detail::HostElements elements(tensor, "printing");
  if (tensor.numel() == 0) return heading + " []";
  const std::string block = Block(elements, options).text();
  const bool is_short = block.find('\n') == std::string::npos &&
                        heading.size() + 1 + block.size() <= static_cast<std::size_t>(std::max(options.line_width, 1));
  return heading + (is_short ? " " : "\n") + block;
}

}  // namespace

std::string to_string(const Tensor& tensor, const PrintOptions& options) {
  if (!tensor) return "no tensor";
  if (!tensor.has_layout()) return with_values(describe(tensor), tensor, options);
  const RankPlace& place = current_place();
  const std::string rank = fmt::format("rank {} of {}", place.rank.value(), place.world_size);
  const Tensor local = tensor.local();
  if (!local) return describe(tensor) + "\n" + rank + " is not in the mesh and holds no shard";
  return describe(tensor) + "\n" + with_values(rank + " holds " + describe(local), local, options);
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return out << to_string(tensor); }

}  // namespace tessera::tensor
