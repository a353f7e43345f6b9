// The presets. `hidden` is that of the published models; where there is none (tiny, 124m) it is 8/3 of the width, as
// three matrices of a gated feed-forward part then have as many numbers as two of an ungated one of 4 widths.
#include <array>

#include "tessera/train/config.h"

namespace tessera::train {

std::span<const Preset> presets() {
  // Numbers of 124m are GPT-2's, its vocabulary rounded up to a multiple of 128; of 1b and 8b Llama 3's. 124m and 1b
  // have these sizes with model.tied = true.
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
