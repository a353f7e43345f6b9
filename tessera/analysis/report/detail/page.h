// Assembles the page from the sources under page/, which the build embeds, and the data of a run.
//
//   <script type="application/json" id="data">     values and text; every '<' in it is written as \u003c
//   <script type="text/plain" id="events">         base64
//   <style>, <script>                              embedded, with a nonce that the content security policy demands
//
// The policy allows no requests; that of a live page allows requests to its server. The nonce is a digest of the data:
// text of a run cannot contain a digest of itself.
#pragma once

#include <string>
#include <string_view>

namespace tessera::analysis::detail {

/// Returns the page that shows `data`, which is JSON in ASCII, and `base64`. A live page may request more from its
/// server.
std::string page_of(std::string_view data, std::string_view base64, bool is_live = false);

}  // namespace tessera::analysis::detail
