#include "tessera/base/error.h"
#include "tessera/train/detail/template_expression.h"

namespace tessera::train::detail {

bool is_true(const TemplateValue& value) {
  if (value.is_discarded() || value.is_null()) return false;
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value != TemplateValue(0);
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  return !value.empty();
}

std::string text_of(const TemplateValue& value) {
  if (value.is_discarded()) return "";
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_string()) return value.get<std::string>();
  TESSERA_CHECK_AS(NotSupported, value.is_number(), "chat template: printing ", value.type_name(), " is not supported");
  return value.dump();
}

std::size_t nbytes_of(const TemplateValue& value, int depth) {
  TESSERA_CHECK_AS(NotSupported, depth < 64, "chat template: values nested deeper than 64 are not supported");
  std::size_t nbytes = sizeof(TemplateValue) + (value.is_string() ? value.get_ref<const std::string&>().size() : 0);
  if (value.is_structured()) {
    for (const TemplateValue& each : value) nbytes += nbytes_of(each, depth + 1);
  }
  return nbytes;
}

}  // namespace tessera::train::detail
