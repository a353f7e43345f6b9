#include "tessera/ops/matrix/detail/product_library.h"

#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string_view>
#include <utility>

#include "tessera/base/amx.h"
#include "tessera/base/error.h"
#include "tessera/ops/instruction_set.h"

// OpenMP functions; Debian builds oneDNN with OpenMP, and compilers other than g++ may lack omp.h.
extern "C" {
int omp_get_max_threads(void);
void omp_set_num_threads(int count);
}

namespace tessera::ops::detail {
namespace {

// oneDNN's kernels leave the stack where it is up to an inner dimension of 84.
constexpr std::int64_t kLongestSafe = 64;

// Returns the instructions that oneDNN's own variable limits it to, or `best` if it names none without AMX. A call of
// dnnl_set_max_cpu_isa would replace that limit.
dnnl_cpu_isa_t limit_of_user(dnnl_cpu_isa_t best) {
  static constexpr std::pair<std::string_view, dnnl_cpu_isa_t> kLimits[] = {
      {"SSE41", dnnl_cpu_isa_sse41},
      {"AVX", dnnl_cpu_isa_avx},
      {"AVX2", dnnl_cpu_isa_avx2},
      {"AVX2_VNNI", dnnl_cpu_isa_avx2_vnni},
      {"AVX512_CORE", dnnl_cpu_isa_avx512_core},
      {"AVX512_CORE_VNNI", dnnl_cpu_isa_avx512_core_vnni},
      {"AVX512_CORE_BF16", dnnl_cpu_isa_avx512_core_bf16}};
  for (const char* name : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {
    const char* value = std::getenv(name);
    if (value == nullptr) continue;
    const auto* found =
        std::ranges::find(kLimits, std::string_view(value), &std::pair<std::string_view, dnnl_cpu_isa_t>::first);
    return found == std::end(kLimits) ? best : found->second;
  }
  return best;
}

// Fails if other code in the process used this oneDNN before; that choice then stays in force.
bool prepare() {
  const bool is_amx_allowed = amx_state() == AmxState::kWorks;
  return dnnl_set_max_cpu_isa(limit_of_user(is_amx_allowed ? dnnl_cpu_isa_avx512_core_amx
                                                           : dnnl_cpu_isa_avx512_core_bf16)) == dnnl_success;
}

// All signals except those that an instruction raises: if blocked, these would end the process without their handler.
sigset_t signals_from_outside() {
  sigset_t all;
  ::sigfillset(&all);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) ::sigdelset(&all, own);
  return all;
}

void prepare_once() { [[maybe_unused]] static const bool kIsLimited = prepare(); }

}  // namespace

ProductCall::ProductCall(std::int64_t k)
    : threads_before_(omp_get_max_threads()), are_signals_blocked_(k > kLongestSafe) {
  prepare_once();
  static const sigset_t kFromOutside = signals_from_outside();
  if (are_signals_blocked_) ::pthread_sigmask(SIG_BLOCK, &kFromOutside, &signals_before_);
  if (threads_before_ != 1) omp_set_num_threads(1);
}
ProductCall::~ProductCall() {
  if (threads_before_ != 1) omp_set_num_threads(threads_before_);
  if (are_signals_blocked_) ::pthread_sigmask(SIG_SETMASK, &signals_before_, nullptr);
}

std::string product_library() {
  const dnnl_version_t* version = dnnl_version();
  return tessera::detail::concat("oneDNN ", version->major, ".", version->minor, ".", version->patch);
}

Bf16Products bf16_products() {
  prepare_once();
  // Depends on the processor, not on a measurement, so that all ranks of a job compute the same bits.
  static const Bf16Products kChosen = choose_bf16_products(
      amx_state() == AmxState::kWorks && dnnl_get_effective_cpu_isa() == dnnl_cpu_isa_avx512_core_amx,
      dnnl_get_effective_cpu_isa() == dnnl_cpu_isa_avx512_core_bf16, __builtin_cpu_is("amd") != 0);
  return kChosen;
}

Bf16Products choose_bf16_products(bool has_amx, bool has_avx512_bf16, bool is_amd) {
  if (has_amx) return Bf16Products::kAmx;
  return has_avx512_bf16 && is_amd ? Bf16Products::kAvx512 : Bf16Products::kConverted;
}

bool has_fast_bf16() { return bf16_products() != Bf16Products::kConverted; }

std::string bf16_products_text() {
  switch (bf16_products()) {
    case Bf16Products::kAmx: return product_library() + " (AMX tiles)";
    case Bf16Products::kAvx512: return product_library() + " (AVX512_BF16)";
    case Bf16Products::kConverted: return "converted to f32";
  }
  return "";
}

std::string product_instructions() {
  prepare_once();
  switch (dnnl_get_effective_cpu_isa()) {
    case dnnl_cpu_isa_sse41: return "sse41";
    case dnnl_cpu_isa_avx: return "avx";
    case dnnl_cpu_isa_avx2: return "avx2";
    case dnnl_cpu_isa_avx2_vnni: return "avx2_vnni";
    case dnnl_cpu_isa_avx512_core: return "avx512_core";
    case dnnl_cpu_isa_avx512_core_vnni: return "avx512_core_vnni";
    case dnnl_cpu_isa_avx512_core_bf16: return "avx512_core_bf16";
    case dnnl_cpu_isa_avx512_core_amx: return "avx512_core_amx";
    default: return "generic code";
  }
}

}  // namespace tessera::ops::detail
