#include "app.h"

#include <algorithm>
#include <cstring>

#include "node.h"

namespace sluice::sim {

thread_local uint32_t tasks_left = 0;

namespace {
constexpr uint64_t kOpenDeadline = 800 * kMs, kOpenRetry = 5 * kMs;
constexpr size_t kMaxOpenBatches = 6;
}  // namespace

App::App(World* world, Oracle* oracle, SimNode* node)
    : world_(*world), oracle_(*oracle), node_(*node), life_(node->life().number) {
  next_act_ = world_.now() + world_.app.below(2 * kMs);
}

uint32_t App::turn() {
  if (leaving_) return 0;
  uint32_t work = node_.life().port->poll();
  work += take_notifies();
  for (size_t i = 0; i < open_.size() && !world_.failed(); ++i) check_batch(*open_[i]);
  std::erase_if(open_, [](const BatchRecord* b) { return b->released; });
  for (auto& [node, t] : targets_) poll_target(node, t);
  if (!withdrawing_.empty()) go_on_withdrawing();
  if (world_.now() >= next_act_) work += act();
  return work;
}

uint32_t App::act() {
  const Plan& plan = world_.plan;
  const bool pause = plan.pause_ns != 0 && world_.app.below(16) == 0;
  next_act_ = world_.now() + (pause ? plan.pause_ns : world_.app.range(plan.think_low, plan.think_high));
  if (probing_) {
    for (auto& [node, t] : targets_)
      if (t.state == Target::State::kOpen && !t.probed) return submit(3, {node}, true) ? 1 : 0;
    for (auto& [node, t] : targets_)
      if (t.state == Target::State::kNone && world_.now() >= t.retry && !t.probed) open(node);
    return 0;
  }
  if (stopped_) return 0;
  const auto other = static_cast<uint32_t>(world_.app.below(plan.nodes - 1));
  const uint32_t node = other < node_.index() ? other : other + 1;
  Target& t = targets_[node];
  if (t.state == Target::State::kNone && world_.now() >= t.retry) open(node);
  if (world_.hit(Fault::kCancel)) cancel_some();
  const std::vector<uint32_t> open = open_targets();
  if (open.empty() || open_.size() >= kMaxOpenBatches || tasks_left == 0) return 0;
  const auto tasks = std::min(tasks_left, world_.app.small(world_.app.below(8) == 0 ? 0 : 1, plan.batch_tasks));
  tasks_left -= tasks;
  (void)submit(tasks, world_.app.below(3) == 0 ? open : std::vector{open[world_.app.below(open.size())]}, false);
  return 1;
}

// ---- segments

void App::open_all(uint32_t nodes) {
  for (uint32_t n = 0; n < nodes; ++n)
    if (n != node_.index() && targets_[n].state == Target::State::kNone) open(n);
}

void App::open(uint32_t node) {
  Target& t = targets_[node];
  t.life = oracle_.life_of(node);
  t.deadline = world_.now() + kOpenDeadline;
  const Status s = node_.life().service->begin_open("127.0.0.1:" + std::to_string(1000 + node),
                                                    "w" + std::to_string(t.life), &t.request);
  if (!s.ok()) return world_.fail("begin_open: " + s.describe());
  t.state = Target::State::kOpening;
}

void App::poll_target(uint32_t node, Target& t) {
  if (t.state != Target::State::kOpening) return;
  const std::lock_guard lock(node_.life().lock);
  if (t.request->done) {
    world_.count("open." + std::string(code_name(t.request->status.code())));
    world_.trace("life " + std::to_string(life_) + " opens w" + std::to_string(t.life) + ": " +
                 t.request->status.describe());
    t.handle = t.request->handle;
    t.state = t.request->status.ok() ? Target::State::kOpen : Target::State::kNone;
  } else if (world_.now() >= t.deadline) {
    node_.life().service->give_up(t.request);
    world_.count("open.deadline");
    t.state = Target::State::kNone;
    world_.trace("life " + std::to_string(life_) + " gives up opening at node " + std::to_string(node));
  } else {
    return;
  }
  t.request.reset();
  t.retry = world_.now() + kOpenRetry;
}

void App::drop(uint32_t node, Target& t) {
  if (t.state != Target::State::kOpen) return;
  const std::lock_guard lock(node_.life().lock);
  (void)node_.life().segments.close(t.handle);
  t.state = Target::State::kNone;
  t.retry = world_.now() + kOpenRetry;
  world_.trace("life " + std::to_string(life_) + " lets go of node " + std::to_string(node));
}

std::vector<uint32_t> App::open_targets() const {
  std::vector<uint32_t> out;
  for (const auto& [node, t] : targets_)
    if (t.state == Target::State::kOpen) out.push_back(node);
  return out;
}

// ---- batches

bool App::make_task(BatchRecord& batch, uint32_t node, bool probe, Request* r) {
  const Target& t = targets_.at(node);
  LifeMemory& mine = oracle_.memory(life_);
  LifeMemory& theirs = oracle_.memory(t.life);
  TaskRecord task;
  const size_t number = batch.tasks.size();
  task.read = probe ? number == 2 : world_.app.below(3) == 0;
  task.from = life_;
  task.to = t.life;
  task.local_cell = oracle_.take_cell(mine, true);
  if (task.local_cell == kCells) return false;
  task.cell = task.read ? static_cast<uint32_t>(world_.app.below(kCells)) : oracle_.take_cell(theirs, false);
  if (task.cell == kCells) {
    mine.local_cells[task.local_cell].state = Cell::State::kFree;
    return false;
  }
  const uint32_t most = oracle_.cell_bytes();
  task.length = world_.app.below(2) == 0 ? world_.app.small(1, 100) : world_.app.small(1, most);
  if (probe) task.length = number == 0 ? 8 : most;
  task.offset = world_.app.small(0, most - task.length);
  task.pattern = world_.ids.next();
  const uint64_t at = uint64_t{oracle_.cell_bytes()} * task.cell + task.offset;
  *r = Request{task.read ? TransferOp::kRead : TransferOp::kWrite,
               task.read ? 1u : 0u,
               mine.local.data() + uint64_t{oracle_.cell_bytes()} * task.local_cell + task.offset,
               t.handle,
               at,
               task.length};
  oracle_.start(task);
  batch.tasks.push_back(task);
  return true;
}

bool App::submit(uint32_t tasks, const std::vector<uint32_t>& nodes, bool probe) {
  PortImpl& port = *node_.life().port;
  BatchRecord& batch = oracle_.new_batch(life_);
  batch.probe = probe;
  if (port.allocate_batch(std::max(tasks, 1u), &batch.handle) != Code::kOk) {
    world_.fail("a batch is refused");
    return false;
  }
  std::vector<Request> requests;
  std::vector<uint32_t> used;
  for (uint32_t i = 0; i < tasks; ++i) {
    Request r;
    const uint32_t node = nodes[world_.app.below(nodes.size())];
    if (!make_task(batch, node, probe, &r)) break;
    requests.push_back(r);
    used.push_back(node);
  }
  uint32_t bad = 0;
  const Code code = port.submit(batch.handle, requests, &bad);
  if (code != Code::kOk) {
    undo(batch);
    if (code != Code::kPeerDead && code != Code::kStale) world_.fail("submit: " + std::string(code_name(code)));
    drop(used[bad], targets_[used[bad]]);
    return false;
  }
  const uint32_t to = nodes[world_.app.below(nodes.size())];
  if (probe || world_.app.below(3) == 0 || requests.empty()) {
    const Code told = port.attach_notify(batch.handle, targets_[to].handle, "n", std::to_string(batch.uid));
    batch.notify = told == Code::kOk;
    batch.notify_to = targets_[to].life;
    if (told != Code::kOk && told != Code::kAgain && told != Code::kStale && told != Code::kPeerDead)
      world_.fail("attach_notify: " + std::string(code_name(told)));
  }
  if (world_.tracing())
    world_.trace("life " + std::to_string(life_) + " submits batch " + std::to_string(batch.uid) + " of " +
                 std::to_string(batch.tasks.size()) + (batch.notify ? " with notify to " : " ") +
                 std::to_string(batch.notify_to));
  if (probe) targets_[to].probed = true;
  open_.push_back(&batch);
  return true;
}

// A refused submit: nothing of it may ever happen.
void App::undo(BatchRecord& batch) {
  for (TaskRecord& t : batch.tasks) oracle_.finish(t, TaskState::kCancelled, Code::kCancelled);
  batch.released = true;
  if (node_.life().port->release(batch.handle) != Code::kOk) world_.fail("a refused batch is busy");
}

void App::check_batch(BatchRecord& batch) {
  for (uint32_t i = 0; i < batch.tasks.size() && !world_.failed(); ++i) check_task(batch, i);
  BatchStatus s;
  const PortImpl& port = *node_.life().port;
  if (port.status(batch.handle, &s) != Code::kOk) return world_.fail("an open batch has no status");
  if (!s.final) return;
  uint32_t done = 0;
  for (const TaskRecord& t : batch.tasks) done += t.state == TaskState::kDone ? 1 : 0;
  if (done != s.done || s.done + s.failed + s.cancelled != batch.tasks.size())
    world_.fail("a batch counts other ends than its tasks have");
  if (batch.notify != (s.notify != NotifyState::kNone)) world_.fail("a notify is lost from its batch");
  if (batch.notify && s.notify == NotifyState::kDelivered && done != batch.tasks.size())
    world_.fail("a notify is sent though a task of its batch is not done");
  if (batch.notify) world_.count(s.notify == NotifyState::kDelivered ? "notify.delivered" : "notify.failed");
  if (batch.probe && s.notify == NotifyState::kFailed) targets_[oracle_.memory(batch.notify_to).node].probed = false;
  if (node_.life().port->release(batch.handle) != Code::kOk) world_.fail("a final batch is busy");
  batch.released = true;
}

void App::check_task(BatchRecord& batch, uint32_t index) {
  TaskRecord& t = batch.tasks[index];
  TaskStatus s;
  if (node_.life().port->status(batch.handle, index, &s) != Code::kOk) return world_.fail("a task has no status");
  const bool final = s.state > TaskState::kWaiting;
  if (t.state > TaskState::kWaiting) {
    if (s.state != t.state) world_.fail("law 12: a task has two final states");
    return;
  }
  if (s.state == TaskState::kWaiting && t.state != TaskState::kWaiting) world_.count("task.waiting");
  if (!final) {
    t.state = s.state;
    return;
  }
  oracle_.finish(t, s.state, s.code);
  on_end(batch, t, s);
}

void App::on_end(BatchRecord& batch, const TaskRecord& t, const TaskStatus& s) {
  if (world_.tracing())
    world_.trace("life " + std::to_string(life_) + " batch " + std::to_string(batch.uid) + ": a task to life " +
                 std::to_string(t.to) + " ends " + std::to_string(static_cast<int>(s.state)) + " " +
                 std::string(code_name(s.code)));
  if (s.state == TaskState::kDone) return;
  const uint32_t node = oracle_.memory(t.to).node;
  Target& target = targets_[node];
  if (target.life == t.to) {
    drop(node, target);
    if (batch.probe) target.probed = false;
  }
  if (s.state == TaskState::kCancelled) {
    if (!batch.cancelled) world_.fail("a task is cancelled that nobody cancelled");
  } else if (world_.plan.gentle) {
    world_.fail("a task fails though no fault was that bad: " + std::string(code_name(s.code)));
  }
}

void App::cancel_some() {
  if (open_.empty()) return;
  BatchRecord& batch = *open_[world_.app.below(open_.size())];
  if (batch.probe) return;
  batch.cancelled = true;
  const Code code = node_.life().port->cancel(batch.handle);
  if (code != Code::kOk && code != Code::kAgain) world_.fail("cancel: " + std::string(code_name(code)));
}

void App::left() {
  for (BatchRecord* batch : open_) {
    for (TaskRecord& t : batch->tasks)
      if (t.state <= TaskState::kWaiting) oracle_.orphan(t);
    batch->released = true;
  }
  open_.clear();
}

// ---- the rest

void App::withdraw() {
  if (!withdrawing_.empty()) return;
  std::vector<MemoryTable::Exported> buffers;
  Life& l = node_.life();
  const std::lock_guard lock(l.lock);
  if (!l.memory.withdraw(node_.segment(), &buffers).ok()) return;
  for (const MemoryTable::Exported& buffer : buffers) {
    withdrawing_.push_back(l.service->begin_clear_buffer(buffer.id));
    withdrawn_.push_back(buffer.id);
  }
  world_.trace("life " + std::to_string(life_) + " withdraws");
}

void App::go_on_withdrawing() {
  Life& l = node_.life();
  const std::lock_guard lock(l.lock);
  std::erase_if(withdrawing_, [&](uint64_t token) { return l.service->answered(token); });
  if (!withdrawing_.empty()) return;
  for (const uint32_t id : withdrawn_) l.memory.forget(id);
  withdrawn_.clear();
  oracle_.freeze(life_);
  if (Status s = node_.export_all(); !s.ok()) world_.fail("export again: " + s.describe());
}

uint32_t App::take_notifies() {
  NotifyInbox& inbox = node_.life().plane->notifies();
  NotifyInbox::Item item;
  uint32_t n = 0;
  for (; inbox.take(&item); ++n) {
    if (inbox.name(item) != "n") world_.fail("a notify has another name");
    oracle_.on_notify(life_, inbox.message(item));
    inbox.done(item);
  }
  return n;
}

void App::probe(uint32_t nodes) {
  probing_ = true;
  stopped_ = false;
  for (uint32_t n = 0; n < nodes; ++n)
    if (n != node_.index()) targets_[n].probed = false;
}

bool App::probed() const {
  return open_.empty() && std::all_of(targets_.begin(), targets_.end(), [](const auto& t) { return t.second.probed; });
}

std::string App::describe() const {
  std::string out = "life " + std::to_string(life_) + ":";
  for (const BatchRecord* b : open_)
    for (const TaskRecord& t : b->tasks)
      if (t.state <= TaskState::kWaiting)
        out += " [batch " + std::to_string(b->uid) + (t.read ? " read " : " write ") + std::to_string(t.length) +
               " to life " + std::to_string(t.to) + (t.state == TaskState::kWaiting ? " waiting]" : "]");
  for (const auto& [node, t] : targets_)
    if (!t.probed)
      out += " {node " + std::to_string(node) + " state " + std::to_string(static_cast<int>(t.state)) + "}";
  return out;
}

}  // namespace sluice::sim
