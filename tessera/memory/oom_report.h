#pragma once
#include "tessera/base/error.h"
#include "tessera/memory/snapshot.h"
namespace tessera::memory {
struct OomFacts { std::vector<std::string> ladder; std::string reason; };
class OutOfMemoryError : public OutOfMemory { public: explicit OutOfMemoryError(const OomFacts& f) : OutOfMemory(SourcePlace{__FILE__, __LINE__}, f.reason) {} const std::string& report() const { return message(); } };
}
