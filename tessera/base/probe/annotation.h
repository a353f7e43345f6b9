// Annotations: named regions of host code.
//
//   Annotation scope("step", step);
//
// is an open annotation (mark) of this thread until the end of the block. Annotations nest. An open one is a row of the
// record file that is never overwritten, so the record of a hung rank shows its open annotations. Its start and its end
// are also records of the launch ring. If recording is off, an annotation costs one branch.
//
//   record_mark_begin   record_mark_end   ring
//   record_mark         open annotations  table; a row without a name is unused
#pragma once

#include <cstdint>
#include <string_view>

#include "tessera/base/export.h"
#include "tessera/base/probe/ids_only.h"
#include "tessera/base/probe/schema.h"
#include "tessera/base/probe/state_table.h"

namespace tessera::probe {

/// Row of an open annotation.
struct AnnotationRow {
  std::int64_t value;                          ///< Value passed to Annotation.
  Moment since;                                ///< Time of the start; 0 if the row is unused.
  StringId name;                               ///< Name passed to Annotation; empty if the row is unused.
  std::uint32_t thread;                        ///< Thread, as the operating system numbers it.
  std::uint32_t depth;                         ///< Number of open annotations of the thread around this one.
  static constexpr std::uint32_t kRows = 512;  ///< Maximum number of open annotations of all threads.
  TESSERA_RECORD(AnnotationRow, "record_mark", value, since, name, thread, depth)
};

/// Start of an annotation, on the thread of the record.
struct AnnotationBeginRecord {
  std::int64_t value;   ///< Value passed to Annotation.
  StringId name;        ///< Name passed to Annotation.
  std::uint32_t depth;  ///< Depth, as in AnnotationRow.
  TESSERA_RECORD(AnnotationBeginRecord, "record_mark_begin", value, name, depth)
};

/// End of an annotation.
struct AnnotationEndRecord {
  std::int64_t value;   ///< Value passed to Annotation.
  StringId name;        ///< Name passed to Annotation.
  std::uint32_t depth;  ///< Depth, as in AnnotationRow.
  TESSERA_RECORD(AnnotationEndRecord, "record_mark_end", value, name, depth)
};

static_assert(holds_ids_only<AnnotationRow>() && holds_ids_only<AnnotationBeginRecord>() &&
              holds_ids_only<AnnotationEndRecord>());

/// Annotates this thread in the record of its rank during its lifetime. Normally destroyed on the thread that created
/// it. Destruction on another thread, or after the rank has ended, is safe.
class TESSERA_API Annotation {
 public:
  /// Opens the annotation. Each name is stored once per record.
  explicit Annotation(std::string_view name, std::int64_t value = 0);
  /// Closes the annotation.
  ~Annotation();
  Annotation(const Annotation&) = delete;
  Annotation& operator=(const Annotation&) = delete;

 private:
  std::uint64_t recorder_ = 0;  // recorder that holds the row; 0: not recorded
  Row<AnnotationRow> row_;
  std::int64_t value_ = 0;
  StringId name_ = {};
  std::uint32_t depth_ = 0;
};

}  // namespace tessera::probe
