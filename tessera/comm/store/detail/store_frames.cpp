#include "tessera/comm/store/detail/store_frames.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tessera::comm::detail {

static_assert(std::endian::native == std::endian::little, "integers are sent in the byte order of the host");

namespace {

template <class T>
void append_raw(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T read_raw(std::string_view bytes) {
  T value = 0;
  if (bytes.size() == sizeof value) std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

}  // namespace

FrameWriter::FrameWriter(std::string& out, std::uint64_t number, std::uint8_t code) : out_(out), start_(out.size()) {
  append_raw(out_, std::uint32_t{0});
  append_raw(out_, number);
  append_raw(out_, code);
}
FrameWriter& FrameWriter::u8(std::uint8_t value) {
  append_raw(out_, value);
  return *this;
}
FrameWriter& FrameWriter::u32(std::uint32_t value) {
  append_raw(out_, value);
  return *this;
}
FrameWriter& FrameWriter::u64(std::uint64_t value) {
  append_raw(out_, value);
  return *this;
}
FrameWriter& FrameWriter::text(std::string_view value) {
  append_raw(out_, static_cast<std::uint32_t>(value.size()));
  out_.append(value);
  return *this;
}
void FrameWriter::finish() {
  const auto size = static_cast<std::uint32_t>(out_.size() - start_ - kHeadBytes);
  std::memcpy(out_.data() + start_, &size, sizeof size);
}

std::string_view BodyReader::take(std::size_t nbytes) {
  if (!is_good_ || nbytes > rest_.size()) {
    is_good_ = false;
    return {};
  }
  const std::string_view taken = rest_.substr(0, nbytes);
  rest_.remove_prefix(nbytes);
  return taken;
}
std::uint8_t BodyReader::u8() { return read_raw<std::uint8_t>(take(1)); }
std::uint32_t BodyReader::u32() { return read_raw<std::uint32_t>(take(4)); }
std::uint64_t BodyReader::u64() { return read_raw<std::uint64_t>(take(8)); }
std::string_view BodyReader::text() { return take(u32()); }

char* FrameReader::room(std::size_t nbytes) {
  if (begin_ == end_) {
    begin_ = end_ = 0;
    if (buffer_.capacity() > kKeptBytes) buffer_ = std::vector<char>();
  }
  if (begin_ > 0 && buffer_.size() - end_ < nbytes) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() - end_ < nbytes) buffer_.resize(std::max(end_ + nbytes, buffer_.size() * 2));
  return buffer_.data() + end_;
}

std::optional<std::string_view> FrameReader::next() {
  if (is_bad_ || end_ - begin_ < kHeadBytes) return std::nullopt;
  const auto size = read_raw<std::uint32_t>({buffer_.data() + begin_, kHeadBytes});
  if (size < kMinBodyBytes || size > max_) {
    is_bad_ = true;
    return std::nullopt;
  }
  if (end_ - begin_ - kHeadBytes < size) return std::nullopt;
  const std::string_view frame(buffer_.data() + begin_ + kHeadBytes, size);
  begin_ += kHeadBytes + size;
  return frame;
}

std::optional<StoreRequest> parse_request(std::string_view frame) {
  BodyReader in(frame);
  StoreRequest request;
  request.number = in.u64();
  request.verb = static_cast<StoreRequestKind>(in.u8());
  switch (request.verb) {
    case StoreRequestKind::kHello:
      request.version = in.u32();
      request.key = in.text();
      break;
    case StoreRequestKind::kSet:
    case StoreRequestKind::kProof:
      request.key = in.text();
      request.value = in.text();
      break;
    case StoreRequestKind::kFind:
    case StoreRequestKind::kRemove:
    case StoreRequestKind::kKeys: request.key = in.text(); break;
    case StoreRequestKind::kAdd:
      request.key = in.text();
      request.by = static_cast<std::int64_t>(in.u64());
      break;
    case StoreRequestKind::kCompareSet: {
      request.key = in.text();
      const std::uint8_t has_expected = in.u8();
      if (has_expected > 1) return std::nullopt;
      if (has_expected == 1) request.expected = in.text();
      request.value = in.text();
      break;
    }
    case StoreRequestKind::kWait: {
      request.timeout_ns = in.u64();
      const std::uint32_t count = in.u32();
      // Each key takes at least four bytes: rejects impossible counts.
      if (count > in.left() / 4) return std::nullopt;
      request.keys.reserve(count);
      for (std::uint32_t i = 0; i < count; ++i) request.keys.push_back(in.text());
      break;
    }
    default: return std::nullopt;
  }
  return in.is_done() ? std::optional(std::move(request)) : std::nullopt;
}

std::optional<Reply> parse_reply(std::string_view frame) {
  if (frame.size() < kMinBodyBytes) return std::nullopt;
  BodyReader in(frame);
  Reply reply;
  reply.number = in.u64();
  const std::uint8_t status = in.u8();
  if (status > static_cast<std::uint8_t>(Status::kRefused)) return std::nullopt;
  reply.status = static_cast<Status>(status);
  reply.body = frame.substr(kMinBodyBytes);
  return reply;
}

void write_request(std::string& out, const StoreRequest& request) {
  FrameWriter frame(out, request.number, static_cast<std::uint8_t>(request.verb));
  switch (request.verb) {
    case StoreRequestKind::kHello: frame.u32(request.version).text(request.key); break;
    case StoreRequestKind::kSet:
    case StoreRequestKind::kProof: frame.text(request.key).text(request.value); break;
    case StoreRequestKind::kFind:
    case StoreRequestKind::kRemove:
    case StoreRequestKind::kKeys: frame.text(request.key); break;
    case StoreRequestKind::kAdd: frame.text(request.key).u64(static_cast<std::uint64_t>(request.by)); break;
    case StoreRequestKind::kCompareSet:
      frame.text(request.key).u8(request.expected ? 1 : 0);
      if (request.expected) frame.text(*request.expected);
      frame.text(request.value);
      break;
    case StoreRequestKind::kWait:
      frame.u64(request.timeout_ns).u32(static_cast<std::uint32_t>(request.keys.size()));
      for (const std::string_view key : request.keys) frame.text(key);
      break;
  }
  frame.finish();
}

std::string client_proof(std::string_view secret, std::string_view client_nonce, std::string_view server_nonce,
                         std::string_view label) {
  return prove(secret, "tessera store client", {client_nonce, server_nonce, label});
}

std::string server_proof(std::string_view secret, std::string_view client_nonce, std::string_view server_nonce,
                         std::string_view label) {
  return prove(secret, "tessera store server", {client_nonce, server_nonce, label});
}

}  // namespace tessera::comm::detail
