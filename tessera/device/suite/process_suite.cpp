// Memory shared between two processes, in both directions. The child is a new instance of this program (a CUDA process
// cannot continue after a fork); descriptors are sent over a socket pair, and the child inherits one end.
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>

#include "tessera/device/suite/device_suite.h"

namespace tessera::device::suite {

namespace {

struct Parcel {
  std::uint64_t offset;
  std::uint64_t nbytes;
};

class SocketPair {
 public:
  SocketPair() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_), 0); }
  ~SocketPair() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  [[nodiscard]] int ours() const { return ends_[0]; }
  [[nodiscard]] int theirs() const { return ends_[1]; }

 private:
  int ends_[2] = {-1, -1};
};

struct Message {
  Message(Parcel& parcel) {
    part = {&parcel, sizeof parcel};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
  }
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  iovec part{};
  msghdr header{};
};

void send_memory(int socket, const ExportedMemory& exported) {
  Parcel parcel{exported.offset(), exported.nbytes()};
  Message message(parcel);
  cmsghdr* control = CMSG_FIRSTHDR(&message.header);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = exported.fd();
  std::memcpy(CMSG_DATA(control), &fd, sizeof fd);
  ASSERT_EQ(::sendmsg(socket, &message.header, 0), static_cast<ssize_t>(sizeof parcel));
}

ExportedMemory receive_memory(int socket) {
  Parcel parcel{};
  Message message(parcel);
  EXPECT_EQ(::recvmsg(socket, &message.header, MSG_DONTWAIT), static_cast<ssize_t>(sizeof parcel));
  int fd = -1;
  if (const cmsghdr* control = CMSG_FIRSTHDR(&message.header)) std::memcpy(&fd, CMSG_DATA(control), sizeof fd);
  return {fd, parcel.offset, parcel.nbytes};
}

DeviceInts ints_at(const AddressRange& range) { return {reinterpret_cast<int*>(range.data()), 64}; }

}  // namespace

#define SKIP_WITHOUT_EXPORT() \
  if (!device.properties().has_export) GTEST_SKIP() << device.name() << " cannot export memory"

TEST_P(DeviceSuite, AnotherProcessReadsAndWritesExportedMemory) {
  SKIP_WITHOUT_EXPORT();
  const std::size_t granule = device.properties().granularity;
  AddressRange range = device.reserve(2 * granule);
  if (is_child()) {
    const Memory memory = device.import_memory(receive_memory(child_fd()));
    EXPECT_EQ(memory.nbytes(), granule);
    range.map(granule, memory);
    const DeviceInts shared{reinterpret_cast<int*>(range.data() + granule), 64};
    EXPECT_EQ(read(shared), all(64, 5));
    add(stream, shared, 2);
    finish(stream);
    return;
  }
  const SocketPair sockets;
  const Memory memory = device.create_memory(granule);
  range.map(0, memory);
  fill(stream, ints_at(range), 5);
  finish(stream);
  send_memory(sockets.ours(), memory.export_handle());
  const ChildEnd end = run_child(sockets.theirs());
  EXPECT_EQ(end.exit_code, 0) << end.output;
  EXPECT_EQ(read(ints_at(range)), all(64, 7));
}

TEST_P(DeviceSuite, MemoryExportedByAChildOutlivesIt) {
  SKIP_WITHOUT_EXPORT();
  const std::size_t granule = device.properties().granularity;
  AddressRange range = device.reserve(granule);
  if (is_child()) {
    const Memory memory = device.create_memory(granule);
    range.map(0, memory);
    fill(stream, ints_at(range), 77);
    finish(stream);
    send_memory(child_fd(), memory.export_handle());
    return;
  }
  const SocketPair sockets;
  const ChildEnd end = run_child(sockets.theirs());
  EXPECT_EQ(end.exit_code, 0) << end.output;
  const Memory memory = device.import_memory(receive_memory(sockets.ours()));
  range.map(0, memory);
  EXPECT_EQ(read(ints_at(range)), all(64, 77));
}

TEST_P(DeviceSuite, ImportedMemoryIsTheExportedOneInThisProcessToo) {
  SKIP_WITHOUT_EXPORT();
  const std::size_t granule = device.properties().granularity;
  AddressRange first = device.reserve(granule), second = device.reserve(granule);
  const std::size_t own = device.memory_use().own_nbytes;
  Memory memory = device.create_memory(granule);
  first.map(0, memory);
  const Memory imported = device.import_memory(memory.export_handle());
  second.map(0, imported);
  EXPECT_EQ(device.memory_use().own_nbytes, own + granule);
  fill(stream, ints_at(first), 3);
  finish(stream);
  EXPECT_EQ(read(ints_at(second)), all(64, 3));
  first.unmap(0, granule);
  memory.reset();
  EXPECT_EQ(read(ints_at(second)), all(64, 3));  // the bytes live while any process holds them
}

TEST_P(DeviceSuite, ExportingTwiceNamesTheSameBytes) {
  SKIP_WITHOUT_EXPORT();
  const std::size_t granule = device.properties().granularity;
  AddressRange first = device.reserve(granule), second = device.reserve(granule);
  const Memory memory = device.create_memory(granule), beside = device.create_memory(granule);
  const ExportedMemory one = memory.export_handle(), two = memory.export_handle();
  EXPECT_GE(one.fd(), 0);
  EXPECT_NE(one.fd(), two.fd());
  EXPECT_EQ(one.nbytes(), granule);
  first.map(0, device.import_memory(one));
  second.map(0, device.import_memory(two));
  fill(stream, ints_at(first), 8);
  finish(stream);
  EXPECT_EQ(read(ints_at(second)), all(64, 8));
}

TEST_P(DeviceSuite, EachMemoryIsExportedApart) {
  SKIP_WITHOUT_EXPORT();
  const std::size_t granule = device.properties().granularity;
  AddressRange first = device.reserve(granule), second = device.reserve(granule);
  const Memory one = device.create_memory(granule), two = device.create_memory(granule);
  first.map(0, device.import_memory(one.export_handle()));
  second.map(0, device.import_memory(two.export_handle()));
  fill(stream, ints_at(first), 1);
  fill(stream, ints_at(second), 2);
  finish(stream);
  EXPECT_EQ(read(ints_at(first)), all(64, 1));
}

TEST_P(DeviceSuite, DescriptorsThatNameNoMemoryAreRefused) {
  SKIP_WITHOUT_EXPORT();
  const std::size_t granule = device.properties().granularity;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const ExportedMemory pipe_end(ends[0], 0, granule);
  ::close(ends[1]);
  expect_error<Error>([&] { (void)device.import_memory(pipe_end); });
  expect_refused([&] { (void)device.import_memory(ExportedMemory(-1, 0, granule)); }, {"closed"});
  const Memory memory = device.create_memory(granule);
  const Memory imported = device.import_memory(memory.export_handle());
  EXPECT_EQ(imported.nbytes(), granule);
}

}  // namespace tessera::device::suite
