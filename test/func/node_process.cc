// The child's side: a node that obeys one-line commands on stdin and answers each by one line on stdout.
#include <poll.h>

#include <atomic>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <thread>

#include "child.h"

namespace sluice::func {
namespace {

void answer(const std::string& line) { std::cout << line << std::endl; }

class NodeProcess {
 public:
  NodeProcess(std::string mode, std::vector<std::string> words) : mode_(std::move(mode)), words_(std::move(words)) {}
  int run();

 private:
  void bring_up();
  bool obey(const std::string& command, std::istringstream& in);
  void dial(std::istringstream& in);
  void write(std::istringstream& in);
  void flood(std::istringstream& in);
  void notifies();
  void notify_and_stop(std::istringstream& in);
  void stats();
  void set_turning(bool on);

  const std::string mode_;
  const std::vector<std::string> words_;
  std::unique_ptr<TestNode> node_;
  SegmentHandle peer_{};
  std::thread turner_;
  std::atomic<bool> turning_{false};
};

void NodeProcess::set_turning(bool on) {
  if (mode_ != "turned" || on == turning_.load()) return;
  turning_ = on;
  if (!on) return turner_.join();
  turner_ = std::thread([this] {
    while (turning_.load())
      if (node_->engine->progress() == 0) std::this_thread::yield();
  });
}

void NodeProcess::bring_up() {
  node_ = std::make_unique<TestNode>();
  if (const Status s = node_->start(words_, mode_ != "turned"); !s.ok()) return answer("failed " + s.describe());
  set_turning(true);
  answer("ready " + node_->address + " " + std::to_string(reinterpret_cast<uint64_t>(node_->memory.addr)));
}

// dial ADDRESS [AT]: open the segment of that node, at that second of the clock.
void NodeProcess::dial(std::istringstream& in) {
  std::string address;
  double at = 0;
  in >> address >> at;
  while (now_seconds() < at) continue;
  const Status s = node_->engine->open_segment(address, "pool", &peer_);
  answer(s.ok() ? "ok" : s.describe());
}

// write OFFSET LENGTH SEED: fill and write it to the peer that was dialled.
void NodeProcess::write(std::istringstream& in) {
  uint64_t offset = 0, length = 0, seed = 0;
  in >> offset >> length >> seed;
  fill(node_->at(offset), length, seed);
  answer(node_->move(TransferOp::kWrite, peer_, offset, length) ? "ok" : std::string(code_name(node_->last_code)));
}

// flood: say "started", write the whole segment again and again, other bytes each time, until that fails; say how.
void NodeProcess::flood(std::istringstream&) {
  answer("started");
  for (uint64_t round = 0;; ++round) {
    fill(node_->at(0), kSegment, round);
    if (node_->move(TransferOp::kWrite, peer_, 0, kSegment, 64 << 10)) continue;
    return answer(std::string(code_name(node_->last_code)));
  }
}

void NodeProcess::notifies() {
  std::vector<NotifyMessage> got;
  (void)node_->engine->take_notifies(100'000, &got).ok();
  std::string line = std::to_string(got.size());
  for (const NotifyMessage& n : got) line += " " + n.peer + "/" + n.name + "/" + n.message;
  answer(line);
}

// notify-stop COUNT: that many notifies to the peer, and the engine is stopped right behind them.
void NodeProcess::notify_and_stop(std::istringstream& in) {
  uint64_t count = 0;
  in >> count;
  for (uint64_t i = 0; i < count; ++i) {
    Status s;
    (void)wait_for(20, [&] {
      s = node_->engine->send_notify(peer_, "last", std::to_string(i));
      return s.code() != Code::kAgain;
    });
    if (!s.ok()) return answer(s.describe());
  }
  node_->port.reset();
  const Status s = node_->engine->stop(10'000);
  answer(s.ok() ? "ok" : s.describe());
}

void NodeProcess::stats() {
  const NodeStats s = node_->engine->stats();
  std::ostringstream out;
  out << "tasks_open=" << s.tasks_open << " waits=" << s.waits << " peers=" << s.peers << " lanes=" << s.lanes
      << " extents=" << s.extents << " extents_min=" << s.extents_min << " extents_max=" << s.extents_max
      << " rx_slots=" << s.rx_slots << " tx_slots_out=" << s.tx_slots_out << " violations=" << s.violations
      << " bytes_received=" << s.bytes_received << " fds=" << open_fds() << " lease_refusals=" << s.lease_refusals
      << " stale_messages=" << s.stale_messages;
  answer(out.str());
}

bool NodeProcess::obey(const std::string& command, std::istringstream& in) {
  if (command == "quit") return false;
  if (command == "new") return bring_up(), true;
  if (node_ == nullptr) return answer("no node"), true;
  if (command == "dial")
    dial(in);
  else if (command == "write")
    write(in);
  else if (command == "flood")
    flood(in);
  else if (command == "notifies")
    notifies();
  else if (command == "notify-stop")
    notify_and_stop(in);
  else if (command == "stats")
    stats();
  else if (command == "freeze")
    set_turning(false), answer("ok");
  else if (command == "thaw")
    set_turning(true), answer("ok");
  else if (command == "withdraw")
    answer(node_->engine->withdraw_segment("pool").ok() ? "ok" : "not withdrawn");
  else if (command == "drop")
    node_.reset(), answer("ok");
  else
    answer("what is " + command + "?");
  return true;
}

int NodeProcess::run() {
  if (mode_ == "host")
    answer("host");
  else
    bring_up();
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream in(line);
    std::string command;
    in >> command;
    if (!obey(command, in)) break;
  }
  if (node_ != nullptr) node_->stop();
  set_turning(false);
  return 0;
}
}  // namespace

int node_process(int argc, char** argv) {
  return NodeProcess(argv[2], std::vector<std::string>(argv + 3, argv + argc)).run();
}

}  // namespace sluice::func
