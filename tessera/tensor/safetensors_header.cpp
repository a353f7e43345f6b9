#include "tessera/tensor/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>
#include <nlohmann/json.hpp>

namespace tessera::tensor::detail {
namespace {

struct TypeName {
  DType dtype;
  std::string_view name;
};
constexpr TypeName kTypeNames[] = {
    {DType::kF64, "F64"},        {DType::kF32, "F32"},        {DType::kF16, "F16"},   {DType::kBF16, "BF16"},
    {DType::kF8E4M3, "F8_E4M3"}, {DType::kF8E5M2, "F8_E5M2"}, {DType::kI64, "I64"},   {DType::kI32, "I32"},
    {DType::kI16, "I16"},        {DType::kI8, "I8"},          {DType::kU64, "U64"},   {DType::kU32, "U32"},
    {DType::kU16, "U16"},        {DType::kU8, "U8"},          {DType::kBool, "BOOL"}, {DType::kC64, "C64"},
};

constexpr std::size_t kMaxDims = 64;

std::string cut(std::string_view text, std::size_t most) {
  return text.size() <= most ? std::string(text) : std::string(text.substr(0, most)) + "...";
}

std::string json_text(std::string_view text) { return nlohmann::json(text).dump(); }

std::string known_types() {
  std::string text;
  for (const TypeName& type : kTypeNames) (text += text.empty() ? "" : ", ") += type.name;
  return text;
}

// Reads the JSON by events:
//   { "__metadata__": { key: text, ... },  name: { "dtype": text, "shape": [ ... ], "data_offsets": [ ... ] }, ... }
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(const std::string& path, SafetensorsHeader& header) : path_(path), header_(header) {}

  bool key(std::string& text) override {
    switch (place_) {
      case Place::kFile: start_value(std::move(text)); return true;
      case Place::kMetadata: key_ = std::move(text); return true;
      default: break;
    }
    const std::string_view fields[] = {"dtype", "shape", "data_offsets"};
    const auto found = std::ranges::find(fields, text);
    if (found == std::end(fields)) refuse("unknown field '", cut(text, 64), "'");
    field_ = static_cast<Field>(found - fields);
    bool& seen = seen_[static_cast<std::size_t>(field_)];
    if (seen) refuse("field '", text, "' appears twice");
    seen = true;
    return true;
  }
  bool start_object(std::size_t) override {
    switch (place_) {
      case Place::kStart: place_ = Place::kFile; return true;
      case Place::kFile: place_ = name_ == kMetadataName ? Place::kMetadata : Place::kEntry; return true;
      default: refuse("unexpected object");
    }
  }
  bool end_object() override {
    if (place_ == Place::kEntry) finish_entry();
    place_ = place_ == Place::kFile ? Place::kEnd : Place::kFile;
    return true;
  }
  bool start_array(std::size_t) override {
    if (place_ != Place::kEntry || field_ == Field::kDType) refuse("unexpected list");
    place_ = Place::kList;
    return true;
  }
  bool end_array() override {
    place_ = Place::kEntry;
    return true;
  }
  bool number_unsigned(std::uint64_t value) override {
    if (place_ != Place::kList) refuse("unexpected number ", value);
    auto& list = field_ == Field::kShape ? shape_ : offsets_;
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      refuse("number ", value, " does not fit 63 bits");
    }
    if (list.size() == kMaxDims) refuse("a list must have at most ", kMaxDims, " numbers");
    list.push_back(static_cast<std::int64_t>(value));
    return true;
  }
  bool string(std::string& text) override {
    if (place_ == Place::kMetadata) {
      if (!header_.metadata.emplace(key_, text).second) refuse("key ", quoted_name(key_), " appears twice");
      return true;
    }
    if (place_ != Place::kEntry || field_ != Field::kDType) refuse("unexpected string ", quoted_name(text));
    const auto found = std::ranges::find(kTypeNames, std::string_view(text), &TypeName::name);
    TESSERA_CHECK_AS(NotSupported, found != std::end(kTypeNames), where(), "dtype must be one of ", known_types(),
                     ", got '", cut(text, 64), "'");
    dtype_ = found->dtype;
    return true;
  }
  bool null() override {
    // Some writers use null for missing metadata.
    if (place_ == Place::kFile && name_ == kMetadataName) return true;
    refuse("unexpected null");
  }
  bool boolean(bool) override { refuse("unexpected boolean"); }
  bool number_integer(std::int64_t value) override { refuse("number ", value, " is negative"); }
  bool number_float(double, const std::string& text) override {
    refuse("number ", cut(text, 64), " must be an integer of at most 64 bits");
  }
  bool binary(nlohmann::json::binary_t&) override { refuse("unexpected bytes"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& error) override {
    // The message of the library ends with the last token, which may be the complete file.
    TESSERA_THROW(IoError, path_, ": header is not JSON at byte ", kLengthNbytes + position, ": ",
                  cut(error.what(), 200));
  }

  void finish() const { TESSERA_CHECK_AS(IoError, place_ == Place::kEnd, path_, ": header must be a JSON object"); }

 private:
  enum class Place { kStart, kFile, kMetadata, kEntry, kList, kEnd };
  enum class Field { kDType, kShape, kOffsets };

  [[nodiscard]] std::string where() const {
    if (place_ == Place::kMetadata) return path_ + ": metadata: ";
    if (place_ == Place::kStart || name_.empty()) return path_ + ": header: ";
    return path_ + ": tensor " + quoted_name(name_) + ": ";
  }
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    TESSERA_THROW(IoError, where(), parts...);
  }

  void start_value(std::string name) {
    if (name == kMetadataName && std::exchange(has_metadata_, true)) refuse("__metadata__ appears twice");
    name_ = std::move(name);
    shape_.clear();
    offsets_.clear();
    dtype_.reset();
    std::ranges::fill(seen_, false);
  }

  void finish_entry() {
    if (!dtype_ || !seen_[1] || !seen_[2]) refuse("requires dtype, shape and data_offsets");
    if (offsets_.size() != 2) refuse("data_offsets must have 2 numbers, got ", offsets_.size());
    SafetensorsEntry entry{name_, *dtype_, Shape(std::span<const std::int64_t>(shape_)),
                           static_cast<std::uint64_t>(offsets_[0]), static_cast<std::uint64_t>(offsets_[1])};
    if (entry.end_nbytes < entry.begin_nbytes) refuse("data_offsets must not decrease, got ", offsets_);
    std::uint64_t nbytes = 0;
    try {
      nbytes = tessera::nbytes(entry.shape, entry.dtype);
    } catch (const InvalidArgument& error) {
      refuse(error.message());
    }
    if (nbytes != entry.end_nbytes - entry.begin_nbytes) {
      refuse(entry.dtype, entry.shape, " requires ", nbytes, " bytes, but data_offsets ", offsets_, " span ",
             entry.end_nbytes - entry.begin_nbytes);
    }
    header_.entries.push_back(std::move(entry));
  }

  const std::string& path_;
  SafetensorsHeader& header_;
  Place place_ = Place::kStart;
  Field field_ = Field::kDType;
  bool has_metadata_ = false;
  std::string name_;
  std::string key_;
  bool seen_[3] = {};
  std::optional<DType> dtype_;
  std::vector<std::int64_t> shape_;
  std::vector<std::int64_t> offsets_;
};

void check_unique(const std::vector<SafetensorsEntry>& entries, const std::string& path) {
  std::vector<std::string_view> names;
  names.reserve(entries.size());
  for (const SafetensorsEntry& entry : entries) names.push_back(entry.name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice != names.end()) TESSERA_THROW(IoError, path, ": tensor ", quoted_name(*twice), " appears twice");
}

// The sorted tensors must be adjacent from the first byte after the header to the end of the file.
void check_tiling(const std::vector<SafetensorsEntry>& entries, std::uint64_t data_nbytes, const std::string& path) {
  std::uint64_t end = 0;
  const SafetensorsEntry* last = nullptr;
  for (const SafetensorsEntry& entry : entries) {
    const auto before = [&] {
      return last == nullptr ? "the header"
                             : "tensor " + quoted_name(last->name) + ", which ends at " + std::to_string(end);
    };
    TESSERA_CHECK_AS(IoError, entry.begin_nbytes >= end, path, ": tensor ", quoted_name(entry.name), ": offsets [",
                     entry.begin_nbytes, ", ", entry.end_nbytes, ") overlap ", before());
    TESSERA_CHECK_AS(IoError, entry.begin_nbytes == end, path, ": tensor ", quoted_name(entry.name), ": offsets [",
                     entry.begin_nbytes, ", ", entry.end_nbytes, ") leave a gap of ", entry.begin_nbytes - end,
                     " bytes after ", before());
    TESSERA_CHECK_AS(IoError, entry.end_nbytes <= data_nbytes, path, ": tensor ", quoted_name(entry.name),
                     ": offsets [", entry.begin_nbytes, ", ", entry.end_nbytes, ") exceed the file, which has ",
                     data_nbytes, " bytes after its header; the file may be truncated");
    end = entry.end_nbytes;
    last = &entry;
  }
  TESSERA_CHECK_AS(IoError, end == data_nbytes, path, ": tensors end at ", end, ", but the file has ", data_nbytes,
                   " bytes after its header");
}

}  // namespace

std::string quoted_name(std::string_view name) { return "'" + cut(name, 128) + "'"; }

SafetensorsHeader read_safetensors_header(std::string_view file, const std::string& path) {
  TESSERA_CHECK_AS(IoError, file.size() > kLengthNbytes, path,
                   ": a safetensors file starts with 8 bytes of length and a header, got ", file.size(), " bytes");
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  static_assert(std::endian::native == std::endian::little);
  TESSERA_CHECK_AS(IoError, length <= kMaxHeaderNbytes, path, ": header must have at most ", kMaxHeaderNbytes,
                   " bytes, got ", length, "; it may not be a safetensors file");
  TESSERA_CHECK_AS(IoError, length <= file.size() - kLengthNbytes, path, ": header of ", length,
                   " bytes exceeds the file of ", file.size(), " bytes; the file may be truncated");
  const std::string_view text = file.substr(kLengthNbytes, static_cast<std::size_t>(length));
  // The library would accept it as the end.
  const std::size_t null_at = text.find('\0');
  TESSERA_CHECK_AS(IoError, null_at == text.npos, path, ": header is not JSON at byte ", kLengthNbytes + null_at,
                   ", which is 0");
  SafetensorsHeader header;
  header.data_offset = kLengthNbytes + text.size();
  HeaderReader reader(path, header);
  nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  reader.finish();
  check_unique(header.entries, path);
  // An empty tensor comes before one with the same start.
  std::ranges::stable_sort(header.entries, [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::pair(a.begin_nbytes, a.end_nbytes) < std::pair(b.begin_nbytes, b.end_nbytes);
  });
  check_tiling(header.entries, file.size() - header.data_offset, path);
  return header;
}

std::string make_safetensors_header(std::span<const SafetensorsEntry> entries,
                                    const std::map<std::string, std::string>& metadata, const std::string& path) {
  // Concatenated by hand: the library would search each name among all earlier ones.
  std::string text = "{";
  try {
    if (!metadata.empty()) text += json_text(kMetadataName) + ":" + nlohmann::json(metadata).dump();
    for (const SafetensorsEntry& entry : entries) {
      const auto type = std::ranges::find(kTypeNames, entry.dtype, &TypeName::dtype);
      TESSERA_CHECK_AS(NotSupported, type != std::end(kTypeNames), path, ": tensor ", quoted_name(entry.name),
                       ": safetensors does not support ", entry.dtype);
      if (text.size() > 1) text += ",";
      text +=
          fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", json_text(entry.name), type->name,
                      fmt::join(entry.shape.begin(), entry.shape.end(), ","), entry.begin_nbytes, entry.end_nbytes);
    }
  } catch (const nlohmann::json::type_error& error) {
    TESSERA_THROW(InvalidArgument, path, ": names and metadata must be UTF-8: ", cut(error.what(), 200));
  }
  text += "}";
  constexpr std::size_t kAlignment = 64;
  text.append((kAlignment - (kLengthNbytes + text.size()) % kAlignment) % kAlignment, ' ');
  TESSERA_CHECK(text.size() <= kMaxHeaderNbytes, path, ": header must have at most ", kMaxHeaderNbytes, " bytes, got ",
                text.size());
  const std::uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

}  // namespace tessera::tensor::detail
