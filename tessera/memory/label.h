// Ownership of memory. A Label names the owner of every allocation, free and failure in its scope, on its thread:
//
//   memory::Label label("optimizer");
//   Buffer state = allocator.allocate(n, stream);     // shown under "optimizer" in reports, snapshots and records
//
// Labels nest, and the innermost one is recorded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/base/export.h"

namespace tessera::memory {

/// Number of a label in this process; 0 for none.
using LabelId = std::uint32_t;

namespace detail {
[[gnu::tls_model("initial-exec")]] extern TESSERA_API constinit thread_local LabelId current_label;
}

/// Names the owner of allocations in its scope on its thread.
class TESSERA_API Label {
 public:
  /// Opens the scope. Each text is stored once per process.
  explicit Label(std::string_view text);
  /// Restores the previous label.
  ~Label() { detail::current_label = previous_; }
  Label(const Label&) = delete;
  Label& operator=(const Label&) = delete;
  /// Returns the number of a text, which is added if it is new.
  static LabelId id_of(std::string_view text);
  /// Returns the text of a number; "" for 0.
  static const std::string& text_of(LabelId id);

 private:
  LabelId previous_;
};

}  // namespace tessera::memory
