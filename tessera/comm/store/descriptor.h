// An owner of a file descriptor. Internal to the library: stores, launchers and tests of processes use it. Movable; not
// thread-safe.
#pragma once

#include <unistd.h>

#include <utility>

namespace tessera::comm::detail {

/// Owns a descriptor, or none (-1), and closes it.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  /// Returns the descriptor.
  [[nodiscard]] int get() const { return fd_; }
  /// Returns true if it owns a descriptor.
  explicit operator bool() const { return fd_ >= 0; }
  /// Closes the descriptor and takes ownership of another.
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace tessera::comm::detail
