// The out-of-memory report: the use of every byte of the device, and a change that would have made the request fit.
// Pure: the allocator collects OomFacts, and everything here is computed from them.
//
// The account, exact in bytes:
//   total = free + other processes + own outside the allocator + reserved
//   reserved = live by label + rounding + pending by stream + cached by pool and stream
// Private pools are part of these sums and also listed separately.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/export.h"
#include "tessera/base/ids.h"
#include "tessera/memory/snapshot.h"

namespace tessera::memory {

/// Cause of a failed request, in order of precedence: a later cause is used only if no earlier one applies.
enum class OomCause : std::uint8_t {
  kLargerThanDevice,  ///< The request exceeds the memory of the device.
  kPending,           ///< Enough memory is freed, but streams or graphs may still use it.
  kFragmentation,     ///< Enough memory is cached, but in chunks that are too small.
  kPrivatePool,       ///< Enough memory is cached, but in a private pool.
  kLimit,             ///< The device has room, but the limit of the allocator or of the process does not allow it.
  kOtherProcess,      ///< Other processes hold most of the device.
  kOutsideAllocator,  ///< This process holds most of the device outside the allocator.
  kLabelGrew,         ///< All memory is in use, and one label holds the largest share.
};
/// Returns "larger than device", "pending", ...
TESSERA_API std::string_view to_string(OomCause cause);

/// State of the allocator and the device when a request fails. Sizes are in bytes.
struct OomFacts {
  std::string device = {};             ///< Name of the allocator: "cuda:0".
  std::uint64_t requested_nbytes = 0;  ///< Size that the user requested.
  std::uint64_t rounded_nbytes = 0;    ///< Size of the required block.
  std::uint64_t growth_nbytes = 0;     ///< Size requested from the upstream; 0 if equal to rounded_nbytes.
  StreamId stream = {};                ///< Stream of the request.
  PoolId pool = {};                    ///< Pool of the request.
  std::string label = {};              ///< Label in force; empty if none.
  bool is_in_capture = false;          ///< In a capture, nothing can be waited for or released.

  std::uint64_t device_total_nbytes = 0;             ///< Memory of the device; 0 if unknown.
  std::uint64_t device_free_nbytes = 0;              ///< Free memory reported by the driver.
  std::optional<std::uint64_t> process_nbytes = {};  ///< All memory of this process on the device; unset if unknown.
  std::uint64_t other_allocators_nbytes = 0;         ///< Reserved by other allocators of this process on this device.
  std::uint64_t limit_nbytes = 0;                    ///< Limit of the allocator; 0 if none.
  std::uint64_t address_limit_nbytes = 0;            ///< Limit of the address space (RLIMIT_AS); 0 if none.
  std::uint64_t address_nbytes = 0;                  ///< Address space in use, if it has a limit.
  std::vector<PoolId> borrowable_pools = {};         ///< Pools that lend their cached memory.
  Snapshot snapshot = {};                            ///< State of the allocator.
  std::vector<std::string> ladder = {};              ///< Steps of the retry sequence, with their results.
};

/// Use of device memory. total + excess = free + other processes + own outside + unattributed + reserved.
struct OomAccount {
  std::uint64_t total_nbytes = 0;            ///< Memory of the device; 0 if unknown, and then only `reserved` is set.
  std::uint64_t free_nbytes = 0;             ///< Free memory.
  std::uint64_t other_processes_nbytes = 0;  ///< Held by other processes.
  std::uint64_t own_outside_nbytes = 0;      ///< Held by this process outside this allocator.
  std::uint64_t unattributed_nbytes = 0;  ///< Held by other processes or by this one: the driver does not distinguish.
  std::uint64_t excess_nbytes = 0;        ///< Claimed beyond the total; 0 unless the inputs are inconsistent.
  Totals reserved = {};                   ///< Held by this allocator.
  /// Returns true if both sums are exact.
  [[nodiscard]] TESSERA_API bool closes() const;
};

/// Computes the account.
TESSERA_API OomAccount account_of(const OomFacts& facts);

/// Cause of a failed request.
struct OomDiagnosis {
  OomCause cause = OomCause::kLabelGrew;  ///< Kind of the cause.
  std::string sentence;                   ///< Explanation with sizes, without a final period.
};

/// Finds the cause.
TESSERA_API OomDiagnosis diagnose(const OomFacts& facts);

/// Returns the human-readable report. Its first line is a complete summary in one sentence.
TESSERA_API std::string to_text(const OomFacts& facts);
/// Returns the report as a JSON object: sizes in bytes, every label, stream, pool and call site.
TESSERA_API std::string to_json(const OomFacts& facts);

/// Thrown if a request does not fit. message() is the first line of the report.
class TESSERA_API OutOfMemoryError : public OutOfMemory {
 public:
  /// Creates the report.
  OutOfMemoryError(SourcePlace place, const OomFacts& facts);
  /// Returns the report as text.
  [[nodiscard]] const std::string& report() const { return report_; }
  /// Returns the report as JSON.
  [[nodiscard]] const std::string& json() const { return json_; }
  /// Returns the cause.
  [[nodiscard]] OomCause cause() const { return cause_; }

 private:
  OutOfMemoryError(SourcePlace place, std::string report, std::string json, OomCause cause);
  std::string report_;
  std::string json_;
  OomCause cause_;
};

}  // namespace tessera::memory
