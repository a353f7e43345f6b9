// What a request gets, without sockets (serve.h says which answers there are).
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace tessera::record::detail {

/// What a request must show to be answered.
struct PageAccess {
  std::string token;   ///< value of the parameter `token` of the address, or of the cookie
  std::string cookie;  ///< name of the cookie
};

/// Returns a token of 64 hexadecimal digits from 32 bytes of getrandom(2). Throws IoError.
std::string random_token();

/// Returns true if both are equal. The time depends on the length alone.
bool are_equal_secrets(std::string_view a, std::string_view b);

/// The answer to the head of a request, up to its empty line: status line, headers and body. `page` is called where the
/// request is for the page; what it throws becomes an answer. An answer to an address with the token sets the cookie.
std::string http_answer(std::string_view request, const PageAccess& access, const std::function<std::string()>& page);

}  // namespace tessera::record::detail
