// What ought to be: the memory of every life, who may write where, and which notifies may arrive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"
#include "engine/types.h"
#include "world.h"

namespace sluice::sim {

inline constexpr uint32_t kCells = 24;

/// A part of memory that one task has to itself. While none has it, it holds a pattern that nobody may touch.
struct Cell {
  enum class State : uint8_t { kFree, kBusy, kOrphan };
  State state = State::kFree;
  uint64_t pattern = 0;
  uint64_t frozen = 0;  ///< Its sum when the segment was withdrawn: from then on nothing of it moves.
};

struct LifeMemory {
  uint32_t node = 0;
  bool alive = true;
  std::vector<std::byte> exported, stock, local;
  std::vector<Cell> cells, local_cells;
};

struct TaskRecord {
  bool read = false;
  uint32_t from = 0, to = 0;  ///< Lives.
  uint32_t local_cell = 0, cell = 0;
  uint32_t offset = 0, length = 0;
  uint64_t pattern = 0;
  TaskState state = TaskState::kPending;
};

struct BatchRecord {
  uint64_t uid = 0, began = 0;
  BatchHandle handle{};
  uint32_t from = 0, notify_to = 0, notified = 0;
  bool notify = false, cancelled = false, probe = false, released = false;
  std::vector<TaskRecord> tasks;
};

class Oracle {
 public:
  explicit Oracle(World* world) : world_(*world) {}

  uint32_t new_life(uint32_t node);
  void end_life(uint32_t life);
  uint32_t life_of(uint32_t node) const { return current_[node]; }
  LifeMemory& memory(uint32_t life) { return *lives_[life]; }
  uint32_t cell_bytes() const noexcept { return world_.plan.cell_bytes; }

  /// A free cell, checked to be as it was left; kCells when there is none.
  uint32_t take_cell(LifeMemory& m, bool local);
  void start(TaskRecord& task);
  void finish(TaskRecord& task, TaskState state, Code code);
  /// The process that submitted it is gone: nobody will say how it ended.
  void orphan(TaskRecord& task);
  /// The segment of @p life was withdrawn: what is open in it moves no more.
  void freeze(uint32_t life);

  BatchRecord& new_batch(uint32_t from);
  void on_notify(uint32_t to, std::string_view text);
  void check_all();  ///< At the end: every pattern is whole.

  void on_post(uint32_t node, std::span<const std::byte> message);
  /// Set by the laws: the epoch that the receiver of what a node sends in a session is in; 0: unknown.
  std::function<uint64_t(uint32_t, SessionId)> rx_epoch;

 private:
  void fill(std::span<std::byte> bytes, uint64_t pattern) const;
  size_t differs(std::span<const std::byte> bytes, uint64_t pattern) const;
  std::span<std::byte> bytes_of(LifeMemory& m, bool local, uint32_t cell) const;
  void repaint(LifeMemory& m, bool local, uint32_t cell);
  void check_cell(LifeMemory& m, bool local, uint32_t cell, const char* when);
  void check_rest(const TaskRecord& t, bool local, std::span<const std::byte> cell, uint64_t pattern);
  std::string name(const TaskRecord& t) const;

  World& world_;
  std::vector<std::unique_ptr<LifeMemory>> lives_;
  std::array<uint32_t, 16> current_{};
  std::map<uint64_t, std::unique_ptr<BatchRecord>> batches_;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> last_empty_;  // last notify without tasks, by sender and receiver
  uint64_t next_uid_ = 1;
};

}  // namespace sluice::sim
