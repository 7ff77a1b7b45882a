#include "peer_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <iostream>

namespace sluice::contract {
namespace {

std::string to_hex(const Bytes& bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const std::byte byte : bytes) {
    out += kDigits[static_cast<unsigned>(byte) >> 4];
    out += kDigits[static_cast<unsigned>(byte) & 15];
  }
  return out;
}

Bytes from_hex(std::string_view text) {
  Bytes out(text.size() / 2);
  for (size_t i = 0; i < out.size(); ++i) {
    unsigned value = 0;
    std::from_chars(text.data() + 2 * i, text.data() + 2 * i + 2, value, 16);
    out[i] = static_cast<std::byte>(value);
  }
  return out;
}

std::string read_line(int fd) {
  std::string line;
  char byte;
  while (read(fd, &byte, 1) == 1 && byte != '\n') line += byte;
  return line;
}
}  // namespace

PeerProcess::PeerProcess(const Row& row, const Bytes& own, bool silent) {
  int to_child[2], from_child[2];
  if (pipe2(to_child, O_CLOEXEC) != 0 || pipe2(from_child, O_CLOEXEC) != 0) {
    ADD_FAILURE() << "no pipes to a peer process";
    return;
  }
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(to_child[0], STDIN_FILENO);
    dup2(from_child[1], STDOUT_FILENO);
    execl("/proc/self/exe", "contract", silent ? "--silent-peer" : "--peer", row.name, nullptr);
    _exit(127);
  }
  ::close(to_child[0]);
  ::close(from_child[1]);
  const std::string line = to_hex(own) + "\n";
  EXPECT_EQ(write(to_child[1], line.data(), line.size()), static_cast<ssize_t>(line.size()));
  address_ = from_hex(read_line(from_child[0]));
  EXPECT_FALSE(address_.empty()) << "the peer process did not start";
  ::close(to_child[1]);
  ::close(from_child[0]);
}

void PeerProcess::kill() noexcept {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

int run_peer(std::string_view row_name, bool silent) {
  const Row* row = nullptr;
  for (const Row& candidate : rows())
    if (row_name == candidate.name) row = &candidate;
  if (row == nullptr) return 2;
  std::unique_ptr<Driver> driver;
  std::unique_ptr<Device> device;
  if (!open_row(*row, {}, &driver, &device).ok()) return 3;
  Side side(*device);
  std::cout << to_hex(side.address()) << std::endl;
  const Bytes peer = from_hex(read_line(STDIN_FILENO));
  side.connect(PathId{0}, peer);
  const Bytes message = pattern(512, 7);
  for (;;) {
    if (silent) {
      pause();
      continue;
    }
    side.send(PathId{0}, message);
    side.turn();
    side.inbox().clear();
  }
}

}  // namespace sluice::contract
