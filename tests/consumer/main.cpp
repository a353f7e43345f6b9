// Uses a little of everything that is installed, as a program outside the tree would.
#include <tessera/tessera.h>

#include <iostream>

int main() {
  if (tessera::current_place().world_size != 1) return 1;
  int seen = 0;
  tessera::Thread("reader", [&] { seen = tessera::current_place().rank.value() + 1; }).join();
  if (seen != 1) return 1;
  try {
    TESSERA_CHECK(seen == 2, "consumer: expected two, saw ", seen);
  } catch (const tessera::InvalidArgument& error) {
    std::cout << error.what() << "\n";
    return error.operands().find("1 == 2") == std::string::npos ? 1 : 0;
  }
  return 1;
}
