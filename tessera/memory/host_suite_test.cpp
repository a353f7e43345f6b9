// The memory suite on the host. Its x_suite.cpp files are linked in; its twin with planted bugs (tools/run_mutants.py)
// shows that they fail when they should, which only means something while no bug is planted here.
#include "tessera/base/mutant.h"

static_assert(!TESSERA_MUTANT("none"), "the suite is compiled without planted bugs; only the layer has them");
