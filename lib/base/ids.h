/// @file ids.h
/// The names of things, as types: dense numbers that index tables, and random numbers that tell lives apart.
///
/// Model    Dense ids (lane, peer, worker, path, buffer) are small and reused; a handle that leaves the process or
///          outlives a call carries a generation beside its index. Session ids and incarnations are random.
/// Threads  Plain data.
/// Memory   No heap.
/// Errors   None.
#pragma once

#include <cstdint>

namespace sluice {

enum class WorkerId : uint16_t {};
enum class PeerId : uint16_t {};
enum class LaneId : uint32_t {};    ///< Index of a lane in its worker's table.
enum class PathId : uint32_t {};    ///< Index of a path in its queue's table; chosen by the caller, dense.
enum class BufferId : uint32_t {};  ///< Place of an exported buffer in its node's table, and which life of it.
enum class ExtentId : uint16_t {};
enum class SessionId : uint64_t {};    ///< Random; one life of one lane.
enum class Epoch : uint64_t {};        ///< Grows inside a session.
enum class Incarnation : uint64_t {};  ///< Random; one life of one node.
enum class TaskId : uint64_t {};       ///< A sender's own: generation << 32 | index in the lane's task table.

/// The number behind an id.
template <typename Id>
constexpr auto raw(Id id) noexcept {
  return static_cast<__underlying_type(Id)>(id);
}

}  // namespace sluice
