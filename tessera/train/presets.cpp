// The presets. `hidden` is that of the published models. Without one (tiny, 124m) it is 8/3 of the width: three
// matrices of a gated layer then have as many elements as two of an ungated layer of 4 widths.
#include <array>

#include "tessera/train/config.h"

namespace tessera::train {

std::span<const Preset> presets() {
  // 124m has the sizes of GPT-2, with its vocabulary rounded up to a multiple of 128; 1b and 8b have those of Llama 3.
  // The names of 124m and 1b count parameters with model.tied = true.
  static constexpr std::array<Preset, 4> kPresets{{
      // name  width layers heads kv_heads hidden vocabulary sequence
      {"tiny", 128, 4, 4, 2, 352, 256, 128},
      {"124m", 768, 12, 12, 12, 2048, 50304, 1024},
      {"1b", 2048, 16, 32, 8, 8192, 128256, 4096},
      {"8b", 4096, 32, 32, 8, 14336, 128256, 8192},
  }};
  return kPresets;
}

}  // namespace tessera::train
