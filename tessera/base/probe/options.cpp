#include "tessera/base/probe/options.h"

#include "tessera/base/bytes.h"
#include "tessera/base/env.h"
#include "tessera/base/error.h"

namespace tessera::probe {

RecordOptions RecordOptions::from_environment() {
  RecordOptions options;
  options.is_on = env::record_mode() == "on";
  options.nbytes = env::record_bytes();
  TESSERA_CHECK(options.nbytes >= kMinBytes && options.nbytes <= kMaxBytes,
                "environment variable TESSERA_RECORD_BYTES: must be in [256 KiB, 64 GiB], got ",
                format_bytes(options.nbytes), "; TESSERA_RECORD=off disables recording");
  if (env::record_no_space() == "off") options.on_no_space = NoSpace::kOff;
  if (env::record_no_space() == "fail") options.on_no_space = NoSpace::kFail;
  options.directory = env::record_dir();
  return options;
}

}  // namespace tessera::probe
