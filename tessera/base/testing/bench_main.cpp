// The main function of every bench program. The build names the suite and where its results go (see tessera_suite in
// cmake/TesseraPrograms.cmake).
#include "tessera/base/testing/bench.h"

int main(int argc, char** argv) {
  return tessera::bench::run(TESSERA_BENCH_SUITE, TESSERA_BENCH_RESULTS "/" TESSERA_BENCH_SUITE ".json", argc, argv);
}
