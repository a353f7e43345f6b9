#include "tessera/base/probe/options.h"

#include "tessera/base/bytes.h"
#include "tessera/base/env.h"
#include "tessera/base/error.h"

namespace tessera::probe {

RecordOptions RecordOptions::from_environment() {
  RecordOptions options;
  options.is_on = env::record_mode() == "on";
  options.nbytes = env::record_bytes();
  TESSERA_CHECK(options.nbytes >= kMinBytes && options.nbytes <= kMaxBytes, "TESSERA_RECORD_BYTES is ",
                format_bytes(options.nbytes), "; it can be 256 KiB to 64 GiB, and TESSERA_RECORD=off records nothing");
  if (env::record_no_space() == "off") options.on_no_space = NoSpace::kOff;
  if (env::record_no_space() == "fail") options.on_no_space = NoSpace::kFail;
  options.directory = env::record_dir();
  return options;
}

}  // namespace tessera::probe
