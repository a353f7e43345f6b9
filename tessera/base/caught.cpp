#include "tessera/base/caught.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <typeinfo>

#include "tessera/base/error.h"

namespace tessera {
namespace {

std::string current_type() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (type == nullptr) return "unknown";
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(type->name(), nullptr, nullptr, nullptr),
                                                    std::free);
  return name != nullptr ? name.get() : type->name();
}

std::exception_ptr foreign_error(std::string_view where, std::string_view text) {
  const std::string type = current_type();
  try {
    TESSERA_THROW(AbortedError, where, ": must throw exceptions derived from std::exception, got one of type ", type,
                  text.empty() ? "" : ": ", text);
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace

std::exception_ptr caught_error(std::string_view where) noexcept {
  try {
    try {
      throw;
    } catch (const std::exception&) {
      return std::current_exception();
    } catch (const char* text) {
      return foreign_error(where, text != nullptr ? text : "");
    } catch (const std::string& text) {
      return foreign_error(where, text);
    } catch (...) {
      return foreign_error(where, "");
    }
  } catch (...) {
    return std::current_exception();  // no memory for the message
  }
}

}  // namespace tessera
