#include "tessera/base/pickle.h"

#include <bit>
#include <limits>
#include <unordered_map>
#include <vector>

#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"

namespace tessera {
namespace {

enum Opcode : unsigned char {
  kProto = 0x80,
  kStop = '.',
  kMark = '(',
  kNone = 'N',
  kTrue = 0x88,
  kFalse = 0x89,
  kInt32 = 'J',
  kInt1 = 'K',
  kInt2 = 'M',
  kLong1 = 0x8a,
  kFloat = 'G',
  kShortString = 0x8c,
  kString = 'X',
  kEmptyList = ']',
  kEmptyDict = '}',
  kTuple = 't',
  kAppends = 'e',
  kSetItems = 'u',
  kMemoize = 0x94,
  kGet = 'h',
  kLongGet = 'j',
};

// Readers expand a batch into one call; CPython writes batches of a thousand, and readers support that.
constexpr int kBatch = 1000;
// Longer strings are rarely repeated and would only fill the memo.
constexpr std::size_t kLongestShared = 1024;

// Returns the length of the UTF-8 sequence at the start of `text`, or 0 if it is invalid.
std::size_t sequence_length(std::string_view text) {
  const auto at = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto continues = [&](std::size_t i) { return (at(i) & 0xc0u) == 0x80u; };
  const unsigned lead = at(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead < 0xe0) return continues(1) ? 2 : 0;
  if (lead >= 0xe0 && lead < 0xf0) {
    const bool is_overlong = lead == 0xe0 && at(1) < 0xa0;
    const bool is_surrogate = lead == 0xed && at(1) >= 0xa0;
    return continues(1) && continues(2) && !is_overlong && !is_surrogate ? 3 : 0;
  }
  if (lead >= 0xf0 && lead < 0xf5) {
    const bool is_overlong = lead == 0xf0 && at(1) < 0x90;
    const bool is_beyond = lead == 0xf4 && at(1) >= 0x90;
    return continues(1) && continues(2) && continues(3) && !is_overlong && !is_beyond ? 4 : 0;
  }
  return 0;
}

// Returns the text itself if it is UTF-8; otherwise fills `repaired` with the text and U+FFFD for each invalid byte.
std::string_view valid_utf8(std::string_view text, std::string& repaired) {
  std::size_t good = 0;
  while (good < text.size()) {
    const std::size_t length = sequence_length(text.substr(good));
    if (length == 0) break;
    good += length;
  }
  if (good == text.size()) return text;
  repaired.assign(text.substr(0, good));
  while (good < text.size()) {
    const std::size_t length = sequence_length(text.substr(good));
    if (length == 0) {
      repaired += "\xef\xbf\xbd";
    } else {
      repaired += text.substr(good, length);
    }
    good += length == 0 ? 1 : length;
  }
  return repaired;
}

enum class Kind { kTop, kList, kDict, kTuple };

std::string_view to_string(Kind kind) {
  switch (kind) {
    case Kind::kTop: return "pickle";
    case Kind::kList: return "list";
    case Kind::kDict: return "dict";
    case Kind::kTuple: return "tuple";
  }
  return "";
}

// An open container. A batch is the run of values since its mark.
struct Level {
  Kind kind = Kind::kTop;
  bool in_key = false;        // true inside the key of a dict, at any depth, where only tuples may nest
  std::int64_t in_batch = 0;  // values since the mark; 0: no open mark
  std::int64_t values = 0;    // values so far
  std::uint32_t memo = kNoMemo;
  static constexpr std::uint32_t kNoMemo = std::numeric_limits<std::uint32_t>::max();
};

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

}  // namespace

struct PickleWriter::State {
  explicit State(std::ostream& stream) : out(stream) {}

  void op(Opcode code) { out.put(static_cast<char>(code)); }
  void little_endian(std::uint64_t value, int size) {
    for (int i = 0; i < size; ++i) out.put(static_cast<char>(value >> (8 * i)));
  }

  // Called before any value: closes a full batch, opens the next, and checks that a value is allowed here. A batch of a
  // dict has complete pairs only, so its limit counts keys.
  void before_value(bool is_list_or_dict) {
    TESSERA_CHECK(!finished, "pickle: no value may follow finish()");
    Level& level = levels.back();
    TESSERA_CHECK(level.kind != Kind::kTop || level.values == 0,
                  "pickle: the top level must have one value; use a list or a tuple");
    const bool is_key = level.kind == Kind::kDict && level.values % 2 == 0;
    TESSERA_CHECK(!is_list_or_dict || !(is_key || level.in_key),
                  "pickle: a dict key must not be or contain a list or dict");
    if (level.kind == Kind::kList || level.kind == Kind::kDict) {
      if (level.in_batch == (level.kind == Kind::kList ? kBatch : 2 * kBatch)) close_batch(level);
      if (level.in_batch++ == 0) op(kMark);
    }
    ++level.values;
  }

  void close_batch(Level& level) {
    if (level.in_batch > 0) op(level.kind == Kind::kList ? kAppends : kSetItems);
    level.in_batch = 0;
  }

  bool next_is_in_key() const {
    const Level& level = levels.back();
    return level.in_key || (level.kind == Kind::kDict && level.values % 2 == 0);
  }

  void begin(Kind kind, bool is_shared) {
    const bool in_key = !finished && next_is_in_key();
    before_value(kind != Kind::kTuple);
    op(kind == Kind::kList ? kEmptyList : kind == Kind::kDict ? kEmptyDict : kMark);
    Level level;
    level.kind = kind;
    level.in_key = in_key;
    if (is_shared) level.memo = memoize();
    levels.push_back(level);
  }

  void end(Kind kind) {
    Level& level = levels.back();
    TESSERA_CHECK(level.kind == kind, "pickle: cannot end a ", to_string(kind), " while a ", to_string(level.kind),
                  " is open");
    TESSERA_CHECK(kind != Kind::kDict || level.values % 2 == 0, "pickle: the last key of a dict has no value");
    if (kind == Kind::kTuple) {
      op(kTuple);
    } else {
      close_batch(level);
    }
    levels.pop_back();
  }

  std::uint32_t memoize() {
    TESSERA_CHECK(memo_size < Level::kNoMemo, "pickle: number of shared values must fit 32 bits");
    op(kMemoize);
    return memo_size++;
  }

  void get(std::uint32_t index) {
    op(index < 256 ? kGet : kLongGet);
    little_endian(index, index < 256 ? 1 : 4);
  }

  std::ostream& out;
  std::vector<Level> levels = {Level{}};
  std::unordered_map<std::string, std::uint32_t, StringHash, std::equal_to<>> strings;
  std::uint32_t memo_size = 0;
  bool finished = false;
};

PickleWriter::PickleWriter(std::ostream& out) : state_(std::make_unique<State>(out)) {
  state_->op(kProto);
  state_->little_endian(4, 1);
}

PickleWriter::~PickleWriter() = default;

void PickleWriter::none() {
  state_->before_value(false);
  state_->op(kNone);
}

void PickleWriter::value(bool value) {
  state_->before_value(false);
  state_->op(value ? kTrue : kFalse);
}

void PickleWriter::integer(std::int64_t value) {
  if (value >= 0) return natural(static_cast<std::uint64_t>(value));
  state_->before_value(false);
  if (value >= std::numeric_limits<std::int32_t>::min()) {
    state_->op(kInt32);
    state_->little_endian(static_cast<std::uint64_t>(value), 4);
    return;
  }
  int size = 5;
  while (size < 8 && value < -(std::int64_t{1} << (8 * size - 1))) ++size;
  state_->op(kLong1);
  state_->little_endian(static_cast<std::uint64_t>(size), 1);
  state_->little_endian(static_cast<std::uint64_t>(value), size);
}

void PickleWriter::natural(std::uint64_t value) {
  state_->before_value(false);
  if (value < 1u << 8) {
    state_->op(kInt1);
    state_->little_endian(value, 1);
  } else if (value < 1u << 16) {
    state_->op(kInt2);
    state_->little_endian(value, 2);
  } else if (value < 1u << 31) {
    state_->op(kInt32);
    state_->little_endian(value, 4);
  } else {
    const int size = (std::bit_width(value) + 1 + 7) / 8;  // one more bit for the sign
    state_->op(kLong1);
    state_->little_endian(static_cast<std::uint64_t>(size), 1);
    state_->little_endian(value, size < 8 ? size : 8);
    if (size == 9) state_->little_endian(0, 1);
  }
}

void PickleWriter::value(double value) {
  state_->before_value(false);
  state_->op(kFloat);
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (int i = 7; i >= 0; --i) state_->little_endian(bits >> (8 * i), 1);
}

void PickleWriter::value(std::string_view value) {
  std::string repaired;
  const std::string_view text = valid_utf8(value, repaired);
  TESSERA_CHECK(text.size() <= std::numeric_limits<std::uint32_t>::max(),
                "pickle: a string must be shorter than 4 GiB, got ", text.size(), " bytes");
  state_->before_value(false);
  if (const auto found = state_->strings.find(text); found != state_->strings.end()) return state_->get(found->second);
  state_->op(text.size() < 256 ? kShortString : kString);
  state_->little_endian(text.size(), text.size() < 256 ? 1 : 4);
  state_->out.write(text.data(), static_cast<std::streamsize>(text.size()));
  if (text.size() <= kLongestShared) state_->strings.emplace(text, state_->memoize());
}

void PickleWriter::reference(PickleRef shared) {
  TESSERA_CHECK(shared.owner_ == this, "pickle: the reference belongs to another writer");
  state_->before_value(true);
  state_->get(shared.index_);
}

void PickleWriter::begin_list() { state_->begin(Kind::kList, false); }
void PickleWriter::begin_dict() { state_->begin(Kind::kDict, false); }
void PickleWriter::begin_tuple() { state_->begin(Kind::kTuple, false); }
void PickleWriter::end_list() { state_->end(Kind::kList); }
void PickleWriter::end_dict() { state_->end(Kind::kDict); }
void PickleWriter::end_tuple() { state_->end(Kind::kTuple); }

PickleWriter::PickleRef PickleWriter::begin_shared_list() {
  state_->begin(Kind::kList, true);
  return PickleRef(this, state_->levels.back().memo);
}

PickleWriter::PickleRef PickleWriter::begin_shared_dict() {
  state_->begin(Kind::kDict, true);
  return PickleRef(this, state_->levels.back().memo);
}

void PickleWriter::finish() {
  State& state = *state_;
  TESSERA_CHECK(!state.finished, "pickle: finish() was already called");
  TESSERA_CHECK(state.levels.size() == 1, "pickle: finish() while a ", to_string(state.levels.back().kind), " is open");
  TESSERA_CHECK(state.levels.back().values == 1, "pickle: finish() requires a value");
  state.op(kStop);
  state.finished = true;
  state.out.flush();
  TESSERA_CHECK_AS(IoError, state.out.good(), "pickle: cannot write to the stream");
}

void write_pickle_file(const std::string& path, const std::function<void(PickleWriter&)>& fill, FileKind kind) {
  AtomicFile file(path, kind);
  PickleWriter writer(file.stream());
  fill(writer);
  try {
    writer.finish();
  } catch (const IoError&) {
    file.commit();  // has the error, and throws it
    throw;
  }
  file.commit();
}

}  // namespace tessera
