#include "oracle.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "proto/msg_header.h"

namespace sluice::sim {
namespace {
constexpr size_t kNowhere = SIZE_MAX;
std::byte byte_of(uint64_t pattern, size_t i) noexcept {
  return static_cast<std::byte>(pattern + i * 31 + (i >> 8) * (pattern >> 8));
}
uint64_t sum(std::span<const std::byte> bytes) noexcept {
  uint64_t h = 1;
  for (const std::byte b : bytes) h = h * 1099511628211ull + static_cast<uint64_t>(b) + 1;
  return h;
}
}  // namespace

uint32_t Oracle::new_life(uint32_t node) {
  auto m = std::make_unique<LifeMemory>();
  const size_t bytes = size_t{kCells} * cell_bytes();
  m->node = node;
  m->exported.resize(bytes);
  m->stock.resize(bytes);
  m->local.resize(bytes);
  m->cells.resize(kCells);
  m->local_cells.resize(kCells);
  const auto life = static_cast<uint32_t>(lives_.size());
  for (uint32_t c = 0; c < kCells; ++c) {
    repaint(*m, false, c);
    repaint(*m, true, c);
  }
  fill(m->stock, mix(life + 77));
  lives_.push_back(std::move(m));
  current_[node] = life;
  return life;
}

void Oracle::end_life(uint32_t life) {
  lives_[life]->alive = false;
  for (auto& [uid, batch] : batches_) {
    if (batch->from != life || batch->released) continue;
    for (TaskRecord& t : batch->tasks)
      if (t.state <= TaskState::kWaiting) orphan(t);
    batch->released = true;
  }
}

void Oracle::fill(std::span<std::byte> bytes, uint64_t pattern) const {
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = byte_of(pattern, i);
}

size_t Oracle::differs(std::span<const std::byte> bytes, uint64_t pattern) const {
  for (size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] != byte_of(pattern, i)) return i;
  return kNowhere;
}

std::span<std::byte> Oracle::bytes_of(LifeMemory& m, bool local, uint32_t cell) const {
  std::vector<std::byte>& all = local ? m.local : m.exported;
  return {all.data() + size_t{cell} * cell_bytes(), cell_bytes()};
}

// Another pattern, so that a byte that comes once more shows.
void Oracle::repaint(LifeMemory& m, bool local, uint32_t cell) {
  Cell& c = (local ? m.local_cells : m.cells)[cell];
  c.pattern = world_.ids.next();
  c.frozen = 0;
  fill(bytes_of(m, local, cell), c.pattern);
}

void Oracle::check_cell(LifeMemory& m, bool local, uint32_t cell, const char* when) {
  const Cell& c = (local ? m.local_cells : m.cells)[cell];
  const size_t at = differs(bytes_of(m, local, cell), c.pattern);
  if (at == kNowhere) return;
  world_.fail(std::string("law 12: a byte moved after its task was final: node ") + std::to_string(m.node) +
              (local ? ", local cell " : ", exported cell ") + std::to_string(cell) + " at " + std::to_string(at) +
              ", seen " + when);
}

uint32_t Oracle::take_cell(LifeMemory& m, bool local) {
  std::vector<Cell>& cells = local ? m.local_cells : m.cells;
  const auto first = static_cast<uint32_t>(world_.app.below(kCells));
  for (uint32_t i = 0; i < kCells; ++i) {
    const uint32_t at = (first + i) % kCells;
    if (cells[at].state != Cell::State::kFree) continue;
    check_cell(m, local, at, "when it was used again");
    cells[at].state = Cell::State::kBusy;
    return at;
  }
  return kCells;
}

void Oracle::start(TaskRecord& t) {
  if (!t.read) fill(bytes_of(memory(t.from), true, t.local_cell).subspan(t.offset, t.length), t.pattern);
}

std::string Oracle::name(const TaskRecord& t) const {
  return std::string(t.read ? "read" : "write") + " of " + std::to_string(t.length) + " bytes, life " +
         std::to_string(t.from) + " to " + std::to_string(t.to) + ", cell " + std::to_string(t.cell);
}

// What lies beside the task in its cell.
void Oracle::check_rest(const TaskRecord& t, bool local, std::span<const std::byte> cell, uint64_t pattern) {
  for (size_t i = 0; i < cell.size(); ++i) {
    if (i >= t.offset && i < size_t{t.offset} + t.length) continue;
    if (cell[i] == byte_of(pattern, i)) continue;
    return world_.fail(name(t) + (local ? ": local" : ": remote") + " byte " + std::to_string(i) +
                       " beside it changed");
  }
}

void Oracle::finish(TaskRecord& t, TaskState state, Code code) {
  t.state = state;
  LifeMemory& from = memory(t.from);
  LifeMemory& to = memory(t.to);
  const std::span<std::byte> local = bytes_of(from, true, t.local_cell);
  if (t.read) {
    check_rest(t, true, local, from.local_cells[t.local_cell].pattern);
    const std::span<const std::byte> source{to.stock.data() + size_t{t.cell} * cell_bytes() + t.offset, t.length};
    if (state == TaskState::kDone && !std::equal(source.begin(), source.end(), local.begin() + t.offset))
      world_.fail("law 12: a read is done and its bytes are not there: " + name(t));
  } else {
    const std::span<std::byte> remote = bytes_of(to, false, t.cell);
    Cell& cell = to.cells[t.cell];
    if (to.alive || state == TaskState::kDone) check_rest(t, false, remote, cell.pattern);
    if (state == TaskState::kDone && differs(remote.subspan(t.offset, t.length), t.pattern) != kNowhere)
      world_.fail("law 12: a write is done and its bytes are not there: " + name(t));
    if (cell.frozen != 0 && sum(remote) != cell.frozen)
      world_.fail("a byte was placed in a segment after it was withdrawn: " + name(t));
    cell.state = Cell::State::kFree;
    repaint(to, false, t.cell);
  }
  from.local_cells[t.local_cell].state = Cell::State::kFree;
  repaint(from, true, t.local_cell);
  world_.count(std::string("end.") + (t.read ? "read." : "write.") +
               (state == TaskState::kDone        ? "done"
                : state == TaskState::kCancelled ? "cancelled"
                                                 : "failed." + std::string(code_name(code))));
}

void Oracle::orphan(TaskRecord& t) {
  t.state = TaskState::kFailed;
  memory(t.from).local_cells[t.local_cell].state = Cell::State::kOrphan;
  if (!t.read) memory(t.to).cells[t.cell].state = Cell::State::kOrphan;
}

void Oracle::freeze(uint32_t life) {
  LifeMemory& m = memory(life);
  for (uint32_t c = 0; c < kCells; ++c)
    if (m.cells[c].state == Cell::State::kBusy) m.cells[c].frozen = sum(bytes_of(m, false, c));
}

BatchRecord& Oracle::new_batch(uint32_t from) {
  auto made = std::make_unique<BatchRecord>();
  made->uid = next_uid_++;
  made->from = from;
  made->began = world_.now();
  BatchRecord& batch = *made;
  batches_[batch.uid] = std::move(made);
  return batch;
}

void Oracle::on_notify(uint32_t to, std::string_view text) {
  uint64_t uid = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), uid);
  const auto it = batches_.find(uid);
  if (it == batches_.end()) return world_.fail("a notify that nobody sent");
  BatchRecord& b = *it->second;
  if (!b.notify || b.notify_to != to) return world_.fail("a notify arrives where it was not sent");
  if (++b.notified > 1) return world_.fail("a notify arrives twice");
  for (const TaskRecord& t : b.tasks)
    if (t.state != TaskState::kDone) return world_.fail("a notify arrives before the data of its batch: " + name(t));
  world_.count("notify.arrived");
  if (!b.tasks.empty()) return;
  uint64_t& last = last_empty_[{b.from, to}];
  if (last > uid) return world_.fail("notifies of one sender arrive out of order");
  last = uid;
}

void Oracle::on_post(uint32_t node, std::span<const std::byte> message) {
  MsgHeader h;
  if (message.size() < kMsgHeaderBytes) return world_.fail("a data message without a header is posted");
  std::memcpy(&h, message.data(), sizeof h);
  const uint64_t epoch = rx_epoch ? rx_epoch(node, h.session) : 0;
  if (epoch != 0 && h.epoch > epoch) world_.fail("law 11: a message of an epoch that has not begun");
}

void Oracle::check_all() {
  for (const auto& m : lives_) {
    for (uint32_t c = 0; c < kCells && !world_.failed(); ++c) {
      if (m->cells[c].state == Cell::State::kFree) check_cell(*m, false, c, "at the end");
      if (m->local_cells[c].state == Cell::State::kFree) check_cell(*m, true, c, "at the end");
    }
    if (const size_t at = differs(m->stock, mix(static_cast<uint64_t>(&m - lives_.data()) + 77)); at != kNowhere)
      world_.fail("memory that is only read has changed");
  }
}

}  // namespace sluice::sim
