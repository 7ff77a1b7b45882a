#include "oob_net.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "base/bytes.h"

namespace sluice {

TestNode& Net::add(const std::string& name, const std::string& listen, const std::function<void(OobConfig&)>& adjust) {
  OobConfig config;
  config.hello.name = name;
  config.hello.incarnation = Incarnation{next_incarnation_++};
  config.hello.lease_ms = 3000;
  config.now_ns = [this] { return now_ns; };
  if (adjust) adjust(config);
  TestNode& made = *nodes.emplace_back(std::make_unique<TestNode>());
  made.node = std::make_unique<OobNode>(std::move(config), &made);
  Status status = made.node->open();
  EXPECT_TRUE(status.ok()) << status.describe();
  if (listen.empty()) return made;
  Address address;
  EXPECT_TRUE(parse_address(listen, AddressUse::kListen, 0, &address).ok());
  status = made.node->listen(address);
  EXPECT_TRUE(status.ok()) << status.describe();
  return made;
}

void Net::remove(TestNode& node) {
  std::erase_if(nodes, [&node](const auto& entry) { return entry.get() == &node; });
}

std::vector<SockAddr> targets_of(const Address& address) {
  std::vector<SockAddr> targets;
  EXPECT_TRUE(resolve(address, AddressUse::kConnect, &targets).ok());
  return targets;
}

DialId Net::dial(TestNode& from, const Address& to) { return from.node->dial(to, targets_of(to)); }

void Net::join(TestNode& from, TestNode& to) {
  const size_t ups = to.ups.size(), results = from.dialed.size();
  dial(from, to.at());
  ASSERT_TRUE(until([&] { return from.dialed.size() > results && to.ups.size() > ups; }));
  ASSERT_TRUE(from.dialed.back().status.ok()) << from.dialed.back().status.describe();
}

bool Net::until(const std::function<bool()>& done, TestNode* only) {
  const auto bound = std::chrono::steady_clock::now() + std::chrono::seconds(90);  // sanitizers are slow
  while (!done()) {
    if (std::chrono::steady_clock::now() > bound) return false;
    if (only != nullptr)
      only->node->turn(1);
    else
      for (const auto& node : nodes) node->node->turn(nodes.size() == 1 ? 1 : 0);
  }
  return true;
}

void Net::settle(TestNode* only, int turns) {
  until([&turns] { return turns-- == 0; }, only);
}

RawClient::RawClient(const Address& to) {
  const SockAddr target = targets_of(to).at(0);
  fd_ = ::socket(target.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(::connect(fd_, target.get(), target.length), 0);
  ::fcntl(fd_, F_SETFL, O_NONBLOCK);
}

RawClient::~RawClient() { ::close(fd_); }

bool RawClient::write(std::string_view bytes) {
  return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

std::string RawClient::frame(std::string_view body) {
  std::string out(4, '\0');
  store_le(out.data(), static_cast<uint32_t>(body.size()));
  return out.append(body);
}

bool RawClient::read() {
  char bytes[4096];
  while (true) {
    const ssize_t got = ::recv(fd_, bytes, sizeof bytes, 0);
    if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
    received_.append(bytes, static_cast<size_t>(got));
  }
}

int open_descriptors() {
  int count = 0;
  DIR* dir = ::opendir("/proc/self/fd");
  while (::readdir(dir) != nullptr) ++count;
  ::closedir(dir);
  return count;
}

}  // namespace sluice
