// Requests and their answers: first as text, then over sockets.
#include "tessera/analysis/report/serve.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tessera/analysis/report/detail/http_answer.h"
#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"

namespace tessera::analysis {
namespace {

using detail::PageAccess;

std::string page() { return "<p>the page"; }

const PageAccess kAccess = {.token = "5ec7e7", .cookie = "tessera_view_8080"};

std::string http_answer(std::string_view request, const std::function<std::string()>& made) {
  return detail::http_answer(request, kAccess, {.page = made});
}

std::string status_of(const std::string& request) {
  const std::string text = http_answer(request, page);
  return text.substr(9, 3);
}
std::string get(const std::string& path, const std::string& host = "127.0.0.1:8080") {
  return "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nCookie: tessera_view_8080=5ec7e7\r\n\r\n";
}

TEST(HttpAnswer, APageIsGivenWithItsLengthAndIsNotKept) {
  const std::string text = http_answer(get("/"), page);
  EXPECT_EQ(text.find("HTTP/1.1 200 OK\r\n"), 0U);
  EXPECT_NE(text.find("Content-Length: 11\r\n"), std::string::npos);
  EXPECT_NE(text.find("Cache-Control: no-store\r\n"), std::string::npos);
  EXPECT_NE(text.find("nosniff"), std::string::npos);
  EXPECT_TRUE(text.ends_with("\r\n\r\n<p>the page"));
  EXPECT_EQ(status_of(get("/report.html")), "200");
  EXPECT_EQ(status_of(get("/?again=1")), "200");
}

TEST(HttpAnswer, OtherPathsAreNotFound) {
  for (const char* path : {"/x", "/../etc/passwd", "//", "*", "/report.html/"})
    EXPECT_EQ(status_of(get(path)), "404") << path;
}

TEST(HttpAnswer, DataAndUpdatesAreJsonAndNeedTheTokenToo) {
  const PageSource source{.page = page,
                          .data = [] { return std::string("{\"all\": 1}"); },
                          .update =
                              [](std::string_view query) {
                                TESSERA_CHECK(query != "bad", "update: must be a cursor");
                                return "{\"after\": \"" + std::string(query) + "\"}";
                              }};
  const auto answer = [&](const std::string& request) { return detail::http_answer(request, kAccess, source); };
  const std::string data = answer(get("/data.json"));
  EXPECT_EQ(data.find("HTTP/1.1 200 OK\r\n"), 0U);
  EXPECT_NE(data.find("Content-Type: application/json\r\n"), std::string::npos);
  EXPECT_NE(data.find("Cache-Control: no-store\r\n"), std::string::npos);
  EXPECT_NE(data.find("nosniff"), std::string::npos);
  EXPECT_NE(data.find("Cross-Origin-Resource-Policy: same-origin\r\n"), std::string::npos);
  EXPECT_TRUE(data.ends_with("\r\n\r\n{\"all\": 1}"));
  EXPECT_TRUE(answer(get("/update.json?loss=1.2&metrics=3.4")).ends_with("{\"after\": \"loss=1.2&metrics=3.4\"}"));
  const std::string bad = answer(get("/update.json?bad"));
  EXPECT_EQ(bad.find("HTTP/1.1 400 "), 0U) << bad;
  EXPECT_NE(bad.find("must be a cursor"), std::string::npos);
  for (const char* path : {"/data.json", "/update.json?loss=1.2&metrics=3.4"}) {
    EXPECT_EQ(answer(std::string("GET ") + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n").find("HTTP/1.1 403 "), 0U)
        << path;
    EXPECT_EQ(answer(get(path, "attacker.example")).find("HTTP/1.1 403 "), 0U) << path;
    EXPECT_EQ(status_of(get(path)), "404") << path << " of a page that does not update itself";
  }
}

TEST(HttpAnswer, OtherMethodsAreNotAllowed) {
  for (const char* method : {"POST", "HEAD", "PUT", "get", "OPTIONS", ""}) {
    const std::string text =
        http_answer(std::string(method) + " /?token=5ec7e7 HTTP/1.1\r\nHost: localhost\r\n\r\n", page);
    EXPECT_EQ(text.substr(9, 3), "405") << method;
    EXPECT_NE(text.find("Allow: GET\r\n"), std::string::npos);
  }
}

TEST(HttpAnswer, NamesThatCouldPointAnywhereAreRefused) {
  for (const char* host : {"localhost", "LocalHost:1", "127.0.0.1", "10.1.2.3:80", "[::1]", "[fe80::1]:8080"})
    EXPECT_EQ(status_of(get("/", host)), "200") << host;
  for (const char* host : {"attacker.example", "attacker.example:8080", "localhost.attacker.example",
                           "127.0.0.1.attacker.example", "1.2.3", "[attacker]", "[", "", "127.0.0.1@x"})
    EXPECT_EQ(status_of(get("/", host)), "403") << host;
}

TEST(HttpAnswer, WhatIsNoRequestIsBad) {
  for (const char* request :
       {"", "\r\n\r\n", "GET\r\n\r\n", "GET /\r\nHost: localhost\r\n\r\n", "GET / HTTP/2\r\nHost: localhost\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        "GET / HTTP/1.1\r\nHost localhost\r\n\r\n", "GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
        "GET / HTTP/1.1\r\n: x\r\n\r\n", "\x16\x03\x01 no tls here"})
    EXPECT_EQ(status_of(request), "400") << request;
}

TEST(HttpAnswer, APageThatCannotBeMadeSaysWhyAsText) {
  const std::string text = http_answer(get("/"), []() -> std::string { TESSERA_THROW(IoError, "<b>the run is gone"); });
  EXPECT_EQ(text.substr(9, 3), "500");
  EXPECT_NE(text.find("text/plain"), std::string::npos);
  EXPECT_NE(text.find("<b>the run is gone"), std::string::npos);
}

TEST(HttpAnswer, WithoutTheTokenNothingIsAnswered) {
  const auto with = [](const std::string& target, const std::string& headers) {
    return http_answer("GET " + target + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n", page);
  };
  for (const char* target : {"/", "/?token=", "/?token=5ec7e", "/?token=5ec7e70", "/?token=5ec7e8", "/?Token=5ec7e7",
                             "/?again=1&token=5EC7E7", "/?xtoken=5ec7e7", "/#token=5ec7e7", "/x", "/report.html"}) {
    const std::string text = with(target, "");
    EXPECT_EQ(text.substr(9, 3), "403") << target;
    EXPECT_EQ(text.find("Set-Cookie"), std::string::npos);
    EXPECT_EQ(text.find("the page"), std::string::npos);
  }
  for (const char* cookie : {"tessera_view_8080=", "tessera_view_8080=5ec7e8", "tessera_view_1=5ec7e7", "5ec7e7",
                             "a=tessera_view_8080=5ec7e7", "token=5ec7e7"})
    EXPECT_EQ(with("/", std::string("Cookie: ") + cookie + "\r\n").substr(9, 3), "403") << cookie;
  EXPECT_EQ(http_answer("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n", page).substr(9, 3), "403");
  for (const char* target : {"/?token=5ec7e7", "/?again=1&token=5ec7e7", "/report.html?token=5ec7e7"})
    EXPECT_NE(with(target, "").find("Set-Cookie: tessera_view_8080=5ec7e7; HttpOnly; SameSite=Strict; Path=/\r\n"),
              std::string::npos)
        << target;
  EXPECT_EQ(with("/", "cookie: a=b; tessera_view_8080=5ec7e7; c=d\r\n").substr(9, 3), "200");
  EXPECT_EQ(with("/x?token=5ec7e7", "").substr(9, 3), "404");
}

TEST(HttpAnswer, TokensAreRandom) {
  const std::string token = detail::random_token();
  EXPECT_EQ(token.size(), 64U);
  EXPECT_EQ(token.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(token, detail::random_token());
}

// A server that runs on a thread.
class Server : public ::testing::Test {
 protected:
  void SetUp() override {
    thread = std::thread([this] { server.run(); });
  }
  void TearDown() override {
    server.stop();
    thread.join();
  }
  [[nodiscard]] int connect() const {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(server.port());
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    return fd;
  }
  static std::string rest_of(int fd) {
    std::string text;
    char part[4096];
    for (ssize_t count = 0; (count = ::read(fd, part, sizeof part)) > 0;)
      text.append(part, static_cast<std::size_t>(count));
    ::close(fd);
    return text;
  }
  [[nodiscard]] std::string ask(const std::string& request) const {
    const int fd = connect();
    EXPECT_EQ(::send(fd, request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
    return rest_of(fd);
  }

  [[nodiscard]] std::string get_page(const std::string& host = "127.0.0.1") const {
    const std::string url = server.url();
    return "GET " + url.substr(url.find("/?")) + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n";
  }

  std::string body = std::string(3 << 20, 'x');
  PageServer server{{}, {.page = [this] { return body; }}};
  std::thread thread;
};

TEST_F(Server, GivesAWholeLargePageOnLoopback) {
  const std::string start = "http://127.0.0.1:" + std::to_string(server.port()) + "/?token=";
  EXPECT_EQ(server.url().substr(0, start.size()), start);
  EXPECT_EQ(ask(get("/")).substr(9, 3), "403") << "the token of another";
  const std::string text = ask(get_page());
  EXPECT_EQ(text.substr(0, 15), "HTTP/1.1 200 OK");
  EXPECT_EQ(text.substr(text.find("\r\n\r\n") + 4), body);
}

TEST_F(Server, GoesOnAfterRequestsThatAreTooLongCutOrNone) {
  const std::string text = ask("GET / HTTP/1.1\r\nX: " + std::string(8100, 'x') + "\r\nY: " + std::string(90, 'y'));
  EXPECT_TRUE(text.empty() || text.substr(9, 3) == "431") << text;
  ::close(connect());
  const int slow = connect();
  EXPECT_EQ(::send(slow, "GET ", 4, MSG_NOSIGNAL), 4);
  EXPECT_EQ(ask(get_page()).substr(9, 3), "200") << "one that is slow holds up nobody";
  ::close(slow);
  EXPECT_EQ(ask(get_page("attacker.example")).substr(9, 3), "403");
}

TEST_F(Server, SilentStrangersKeepNobodyOut) {
  std::vector<int> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(connect());
  EXPECT_EQ(ask(get_page()).substr(9, 3), "200");
  for (const int fd : silent) ::close(fd);
}

// The terminal of `tessera view` closes: run() returns, and temporary files for the browser are removed.
TEST(PageServer, AHangupEndsIt) {
  PageServer server({.ends_on_signals = true}, {.page = page});
  ASSERT_EQ(::kill(::getpid(), SIGHUP), 0);
  server.run();
}

TEST(PageServer, AHangupThatIsIgnoredStaysSo) {
  const auto before = std::signal(SIGHUP, SIG_IGN);
  {
    PageServer server({.ends_on_signals = true}, {.page = page});
    struct sigaction now = {};
    ASSERT_EQ(::sigaction(SIGHUP, nullptr, &now), 0);
    EXPECT_EQ(now.sa_handler, SIG_IGN);
  }
  (void)std::signal(SIGHUP, before);
}

TEST_F(Server, APortThatIsTakenIsTold) {
  expect_error<IoError>([&] { const PageServer other({.port = server.port()}, {.page = page}); },
                        {"is in use by another program"});
  expect_error<InvalidArgument>([&] { const PageServer other({.bind = "here"}, {.page = page}); },
                                {"must be an IP address, got 'here'"});
}

}  // namespace
}  // namespace tessera::analysis
