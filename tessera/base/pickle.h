// Writes Python pickles, protocol 4, as a stream: nothing but the memo of shared values is kept in memory. Only the
// opcodes that plain data needs are used (no classes, no bytes objects, no frames), so that readers which know just
// these, such as PyTorch's memory viewer, can load the result.
//
//   PickleWriter out(stream);
//   out.begin_dict();
//   out.entry("name", "pool");
//   out.value("blocks");                       // a key, then its value
//   out.begin_list();
//   out.value(1); out.value(2.5);
//   out.end_list();
//   out.end_dict();
//   out.finish();
//
// A string that was written before becomes a reference to the first one; lists and dicts are shared where asked
// (begin_shared_list, then reference). Bytes of a string that are not UTF-8 are written as U+FFFD. Misuse (an end
// without its begin, a key without a value, a list as a key, two values at the top) is an InvalidArgument.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>

#include "tessera/base/atomic_file.h"
#include "tessera/base/export.h"

namespace tessera {

/// Writes one pickle to a stream. Not thread-safe.
class TESSERA_API PickleWriter {
 public:
  /// A list or dict written earlier by the same writer.
  class Ref {
    friend class PickleWriter;
    Ref(const PickleWriter* owner, std::uint32_t index) : owner_(owner), index_(index) {}
    const PickleWriter* owner_;
    std::uint32_t index_;
  };

  /// Starts a pickle on `out`, which must outlive the writer.
  explicit PickleWriter(std::ostream& out);
  /// Does not finish: a pickle without finish() cannot be loaded.
  ~PickleWriter();
  PickleWriter(const PickleWriter&) = delete;
  PickleWriter& operator=(const PickleWriter&) = delete;

  /// None.
  void none();
  /// True or False.
  void value(bool value);
  /// An int.
  template <std::integral T>
  void value(T value) {
    if constexpr (std::is_signed_v<T>) {
      integer(value);
    } else {
      natural(value);
    }
  }
  /// A float.
  void value(double value);
  /// A str; a reference when an equal one was written before.
  void value(std::string_view value);
  /// A str; a reference when an equal one was written before.
  void value(const char* value) { this->value(std::string_view(value)); }
  /// A list or dict again: the same object, not a copy.
  void reference(Ref shared);

  /// Starts a list; values follow.
  void begin_list();
  /// Starts a list that can be referred to from then on.
  Ref begin_shared_list();
  /// Ends the list begun last.
  void end_list();
  /// Starts a dict; keys and values follow in turn.
  void begin_dict();
  /// Starts a dict that can be referred to from then on.
  Ref begin_shared_dict();
  /// Ends the dict begun last.
  void end_dict();
  /// Starts a tuple; values follow.
  void begin_tuple();
  /// Ends the tuple begun last.
  void end_tuple();

  /// A key and its value, inside a dict.
  template <class T>
  void entry(std::string_view key, const T& item) {
    value(key);
    value(item);
  }

  /// Ends the pickle. IoError when the stream has failed.
  void finish();

 private:
  void integer(std::int64_t value);
  void natural(std::uint64_t value);

  struct State;
  std::unique_ptr<State> state_;
};

/// Writes a pickle to the file at `path`, as a whole or not at all (see AtomicFile). `fill` writes the value; finish()
/// is called for it.
TESSERA_API void write_pickle_file(const std::string& path, const std::function<void(PickleWriter&)>& fill,
                                   FileKind kind = FileKind::kUser);

}  // namespace tessera
