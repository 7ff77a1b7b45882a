#include "sim_queue.h"

#include <algorithm>
#include <cstring>

namespace sluice::sim {
namespace {
constexpr uint64_t kLongLate = 80 * kMs;  // how late a message whose op failed may still arrive
constexpr uint64_t kHang = 300 * kMs;     // how long a device tries to reach what is gone
constexpr uint64_t kReconnect = 50 * kUs, kConnect = 30 * kMs;
constexpr std::byte kPoison{0xD7};  // in a receive that the device has
}  // namespace

SimQueue::SimQueue(Wires* wires, QueueWatch* watch, const QueueParams& params, bool control, uint32_t index)
    : wires_(wires),
      world_(*wires->world),
      watch_(watch),
      depth_{params.tx_depth, params.rx_depth},
      msg_bytes_(params.msg_bytes),
      control_(control),
      index_(index),
      number_(wires->add(this)),
      paths_(params.max_paths) {}

SimQueue::~SimQueue() { shutdown(); }

// What is on its way stays on its way or is lost with its sender.
void SimQueue::shutdown() noexcept {
  if (shut_) return;
  shut_ = true;
  wires_->remove(number_);
  for (auto& [cookie, f] : out_) {
    f->lands = f->lands && !f->landed && world_.net.below(2) == 0;
    if (f->lands && f->copy.empty()) f->copy.assign(f->addr, f->addr + f->bytes);
    f->from = nullptr;
  }
  out_.clear();
  for (const FlightRef& f : waiting_)
    if (f->from != nullptr) f->from->finish_after(f, latency(), Code::kPeerDead);
  waiting_.clear();
}

Status SimQueue::address(PathId /*path*/, std::vector<std::byte>* out) {
  out->resize(sizeof number_);
  std::memcpy(out->data(), &number_, sizeof number_);
  return Code::kOk;
}

Status SimQueue::connect(PathId path, std::span<const std::byte> peer) {
  if (peer.size() != sizeof(uint64_t) || raw(path) >= paths_.size()) return Code::kBadArgument;
  Path& p = paths_[raw(path)];
  if (p.open) {
    world_.fail("a path is connected twice");
    return Code::kExists;
  }
  p = Path{};
  std::memcpy(&p.peer, peer.data(), sizeof p.peer);
  p.open = true;
  return Code::kOk;
}

Code SimQueue::close(PathId path) noexcept {
  Path* p = find(path);
  if (p == nullptr) return Code::kNotFound;
  p->open = false;
  if (!world_.plan.closes_paths) return Code::kOk;
  for (auto& [cookie, f] : out_) {
    if (f->path != path) continue;
    f->lands = f->lands && world_.net.below(2) == 0;  // it may be past recall
    finish_after(f, latency(), Code::kCancelled);
  }
  return Code::kOk;
}

void SimQueue::peer_gone(PathId path) noexcept {
  for (auto& [cookie, f] : out_) {
    if (f->path != path) continue;
    f->lands = false;
    finish_after(f, latency(), Code::kPeerDead);
  }
}

bool SimQueue::leads_to(uint64_t source) const noexcept {
  return std::any_of(paths_.begin(), paths_.end(), [&](const Path& p) { return p.open && p.peer == source; });
}

void SimQueue::break_path(uint64_t choice, uint64_t until) { paths_[choice % paths_.size()].broken_until = until; }

void SimQueue::heal() {
  broken_until_ = 0;
  for (Path& path : paths_) path.broken_until = 0;
}

uint64_t SimQueue::latency() noexcept { return world_.net.range(world_.plan.latency_low, world_.plan.latency_high); }

// ---- sending

uint32_t SimQueue::refused_from(size_t ops) noexcept {
  if (world_.hit(Fault::kPostRefused)) return static_cast<uint32_t>(world_.net.below(ops + 1));
  return static_cast<uint32_t>(ops);
}

uint32_t SimQueue::post(std::span<const Op> ops) noexcept {
  if (shut_ || ops.empty()) return 0;
  if (ops.size() > kMaxBurst) world_.fail("a post of more than a burst");
  const uint32_t most = refused_from(ops.size());
  uint32_t n = 0;
  for (; n < most && ops_out() < depth_.tx; ++n) {
    const Op& op = ops[n];
    if (op.kind != OpKind::kSend || op.bytes0 > msg_bytes_ || op.bytes1 != 0) world_.fail("a post of a strange op");
    if (out_.count(op.cookie) != 0) world_.fail("a slot is posted while it is posted already");
    watch_->on_post(*this, {op.addr0, op.bytes0});
    launch(op);
  }
  return n;
}

void SimQueue::launch(const Op& op) {
  const auto f = std::make_shared<Flight>(
      Flight{this, number_, 0, op.cookie, op.path, op.addr0, op.bytes0, {}, true, false, world_.now() + kConnect});
  out_[op.cookie] = f;
  Path* path = find(op.path);
  if (path == nullptr) {
    f->lands = false;
    return finish_after(f, latency(), Code::kPeerDead);
  }
  f->to = path->peer;
  if (world_.now() < path->broken_until || world_.now() < broken_until_) {
    f->lands = false;
    return finish_after(f, latency(), Code::kDeviceError);
  }
  if (control_)
    launch_frame(f, *path);
  else
    launch_data(f, *path);
}

void SimQueue::launch_frame(const FlightRef& f, Path& path) {
  if (world_.hit(Fault::kFrameLost)) {
    f->lands = false;
    return finish_after(f, latency(), Code::kOk);
  }
  uint64_t when = std::max(world_.now() + latency(), path.last);
  if (world_.hit(Fault::kFrameDelayed))
    when += world_.net.wide(5 * kUs, kLongLate);
  else
    path.last = when;
  if (world_.hit(Fault::kFrameRepeated)) {
    auto twin = std::make_shared<Flight>(*f);
    twin->from = nullptr;
    twin->copy.assign(f->addr, f->addr + f->bytes);
    land_at(wires_, twin, when + world_.net.wide(1, kLongLate));
  }
  land_at(wires_, f, when);
}

void SimQueue::launch_data(const FlightRef& f, Path& path) {
  uint64_t when = world_.now() + latency();
  if (world_.plan.ordered) when = std::max(when, path.last + 1);
  if (world_.hit(Fault::kOpFailed)) {
    f->lands = false;
    return finish_after(f, latency(), Code::kDeviceError);
  }
  if (world_.hit(Fault::kOpFailedThere)) {
    finish_after(f, latency(), Code::kDeviceError);
    if (!world_.plan.ordered && world_.net.below(2) == 0)  // half of them so late that an epoch may have ended
      when += world_.net.below(2) == 0 ? world_.net.wide(5 * kUs, kLongLate) : world_.net.below(3 * kLongLate);
  } else if (world_.net.chance(world_.plan.eager)) {
    finish_after(f, latency(), Code::kOk);
    if (world_.net.below(2) == 0)
      when += world_.net.wide(5 * kUs, kLongLate);  // as TCP does it: home, and not there yet
  }
  path.last = std::max(path.last, when);
  land_at(wires_, f, when);
}

void SimQueue::finish_after(const FlightRef& f, uint64_t ns, Code code) {
  world_.after(ns, [f, code] {
    if (f->from != nullptr) f->from->finish(f, code);
  });
}

// The op is home, once.
void SimQueue::finish(const FlightRef& f, Code code) {
  if (f->lands && !f->landed) f->copy.assign(f->addr, f->addr + f->bytes);
  f->from = nullptr;
  out_.erase(f->cookie);
  ops_.push_back({f->cookie, 0, CompletionKind::kOp, code});
}

// ---- arriving

void SimQueue::land_at(Wires* wires, const FlightRef& f, uint64_t when) {
  wires->world->at(when, [wires, f] { land(wires, f); });
}

void SimQueue::land(Wires* wires, const FlightRef& f) {
  if (!f->lands) return;
  World& world = *wires->world;
  SimQueue* to = wires->find(f->to);
  if (to != nullptr && (!world.plan.connected || to->leads_to(f->source))) return to->arrive(f);
  if (to != nullptr && world.now() < f->give_up) return land_at(wires, f, world.now() + kReconnect);
  f->lands = false;  // there is nobody
  if (f->from == nullptr) return;
  f->from->finish_after(f, world.plan.dead_hang ? kHang : f->from->latency(), Code::kPeerDead);
}

void SimQueue::arrive(const FlightRef& f) {
  if (rx_.empty() || !waiting_.empty()) {
    if (control_) {
      ++wires_->starved;
    } else if (foreign_.empty() && waiting_.empty() && watch_->credited(*this, f->data())) {
      world_.fail("law 1: a message that has credit finds no receive");
    }
    waiting_.push_back(f);
    return;
  }
  take(f);
}

void SimQueue::take(const FlightRef& f) {
  const RecvBuf to = rx_.front();
  rx_.pop_front();
  const std::span<const std::byte> data = f->data();
  if (data.size() > to.bytes) return world_.fail("a message is longer than its receive");
  std::memcpy(to.addr, data.data(), data.size());
  if (!control_ && !watch_->credited(*this, data)) foreign_.insert(to.cookie);
  watch_->on_landed(*this, data);
  recvs_.push_back({to.cookie, static_cast<uint32_t>(data.size()), CompletionKind::kRecv, Code::kOk});
  f->landed = true;
  if (f->from == nullptr) return;
  const uint64_t late = world_.hit(Fault::kOpLate) ? world_.net.wide(10 * kUs, 20 * kMs) : 0;
  f->from->finish_after(f, f->from->latency() + late, Code::kOk);
}

uint32_t SimQueue::refill(std::span<const RecvBuf> bufs) noexcept {
  if (shut_) return 0;
  size_t most = bufs.size();
  if (world_.hit(Fault::kRefillPartial)) most = world_.net.below(bufs.size() + 1);
  uint32_t n = 0;
  for (; n < most && rx_.size() + recvs_.size() < depth_.rx; ++n) {
    std::memset(bufs[n].addr, static_cast<int>(kPoison), bufs[n].bytes);
    rx_.push_back(bufs[n]);
    foreign_.erase(bufs[n].cookie);
  }
  while (!waiting_.empty() && !rx_.empty()) {
    const FlightRef f = waiting_.front();
    waiting_.pop_front();
    if (f->lands) take(f);
  }
  return n;
}

uint32_t SimQueue::recall(std::span<const uint64_t> cookies) noexcept {
  if (!world_.plan.recalls) return 0;
  uint32_t n = 0;
  for (auto it = rx_.begin(); it != rx_.end();) {
    if (std::find(cookies.begin(), cookies.end(), it->cookie) == cookies.end()) {
      ++it;
      continue;
    }
    recvs_.push_back({it->cookie, 0, CompletionKind::kRecv, Code::kCancelled});
    it = rx_.erase(it);
    ++n;
  }
  return n;
}

uint32_t SimQueue::poll(std::span<Completion> out) noexcept {
  const size_t most = world_.net.below(8) == 0 ? world_.net.below(out.size() + 1) : out.size();
  uint32_t n = 0;
  for (; n < most && (!ops_.empty() || !recvs_.empty()); ++n) {
    std::deque<Completion>& from = recvs_.empty() || (!ops_.empty() && world_.net.below(2) == 0) ? ops_ : recvs_;
    out[n] = from.front();
    from.pop_front();
  }
  return n;
}

}  // namespace sluice::sim
