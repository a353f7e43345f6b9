// Writes Python pickles, protocol 4, as a stream. Only the memo of shared values is kept in memory. The writer uses
// only the opcodes of plain data (no classes, bytes objects or frames), so that restricted readers, such as the PyTorch
// memory viewer, can load the result.
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
// A repeated string becomes a reference to the first one. Lists and dicts are shared on request (begin_shared_list(),
// then reference()). Bytes that are not UTF-8 are written as U+FFFD. Misuse (an end without its begin, a key without a
// value, a list as a key, two top-level values) throws InvalidArgument.
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
  class PickleRef {
    friend class PickleWriter;
    PickleRef(const PickleWriter* owner, std::uint32_t index) : owner_(owner), index_(index) {}
    const PickleWriter* owner_;
    std::uint32_t index_;
  };

  /// Starts a pickle on `out`, which must outlive the writer.
  explicit PickleWriter(std::ostream& out);
  /// Does not finish the pickle: without finish() it cannot be loaded.
  ~PickleWriter();
  PickleWriter(const PickleWriter&) = delete;
  PickleWriter& operator=(const PickleWriter&) = delete;

  /// Writes None.
  void none();
  /// Writes True or False.
  void value(bool value);
  /// Writes an int.
  template <std::integral T>
  void value(T value) {
    if constexpr (std::is_signed_v<T>) {
      integer(value);
    } else {
      natural(value);
    }
  }
  /// Writes a float.
  void value(double value);
  /// Writes a str, or a reference if an equal string was written before.
  void value(std::string_view value);
  /// Writes a str, or a reference if an equal string was written before.
  void value(const char* value) { this->value(std::string_view(value)); }
  /// Writes a reference to a list or dict: the same object, not a copy.
  void reference(PickleRef shared);

  /// Starts a list; its values follow.
  void begin_list();
  /// Starts a list that reference() can refer to.
  PickleRef begin_shared_list();
  /// Ends the current list.
  void end_list();
  /// Starts a dict; keys and values follow alternately.
  void begin_dict();
  /// Starts a dict that reference() can refer to.
  PickleRef begin_shared_dict();
  /// Ends the current dict.
  void end_dict();
  /// Starts a tuple; its values follow.
  void begin_tuple();
  /// Ends the current tuple.
  void end_tuple();

  /// Writes a key and its value, inside a dict.
  template <class T>
  void entry(std::string_view key, const T& item) {
    value(key);
    value(item);
  }

  /// Ends the pickle. Throws IoError if the stream has failed.
  void finish();

 private:
  void integer(std::int64_t value);
  void natural(std::uint64_t value);

  struct State;
  std::unique_ptr<State> state_;
};

/// Writes a pickle to the file at `path` atomically (see AtomicFile). `fill`
/// writes the value; this function calls finish().
TESSERA_API void write_pickle_file(const std::string& path, const std::function<void(PickleWriter&)>& fill,
                                   FileKind kind = FileKind::kUser);

}  // namespace tessera
