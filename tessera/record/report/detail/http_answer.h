// What a request gets, without sockets (serve.h says which answers there are).
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace tessera::record::detail {

/// The answer to the head of a request, up to its empty line: status line, headers and body. `page` is called where the
/// request is for the page; what it throws becomes an answer.
std::string http_answer(std::string_view request, const std::function<std::string()>& page);

}  // namespace tessera::record::detail
