// Who memory belongs to. A Label names the owner of every allocation, free and failure in its scope, on its thread:
//
//   memory::Label label("optimizer");
//   Buffer state = allocator.allocate(n, stream);     // shown under "optimizer" in reports, snapshots and records
//
// Labels nest; the innermost is the one recorded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/base/export.h"

namespace tessera::memory {

/// A label's number in this process; 0: none.
using LabelId = std::uint32_t;

namespace detail {
[[gnu::tls_model("initial-exec")]] extern TESSERA_API constinit thread_local LabelId current_label;
}

/// Names the owner of what is allocated in its scope on its thread.
class TESSERA_API Label {
 public:
  /// Opens the scope. The text is kept once per process.
  explicit Label(std::string_view text);
  /// Back to the label before.
  ~Label() { detail::current_label = previous_; }
  Label(const Label&) = delete;
  Label& operator=(const Label&) = delete;
  /// The number of a text, known before or not.
  static LabelId id_of(std::string_view text);
  /// The text of a number; "" for 0.
  static const std::string& text_of(LabelId id);

 private:
  LabelId previous_;
};

}  // namespace tessera::memory
