/// @file remote_buffer.h
/// What a peer published of one of its buffers, for one-sided access: chunks, and a key of each on each of its rails.
///
/// Model    The chunks cover the buffer in order and without gaps; a chunk is what the peer registered in one piece.
///          Checked once, when it came in (engine/remote_keys.h): here every index holds.
/// Threads  Immutable after construction: any thread.
/// Memory   Owned by the open segment, which stays as long as a task uses it.
/// Errors   None.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sluice {

struct RemoteBuffer {
  struct Chunk {
    uint64_t offset, length;  ///< In the buffer.
    bool operator==(const Chunk&) const = default;
  };
  struct Key {
    uint64_t addr;  ///< What an op names for the chunk's first byte.
    uint64_t key;
    bool operator==(const Key&) const = default;
  };
  std::vector<Chunk> chunks;
  std::vector<Key> keys;  ///< Of chunk i on the peer's rail r: keys[i * rails + r].
  uint32_t rails = 0;

  bool operator==(const RemoteBuffer&) const = default;
  /// The chunk that holds byte @p offset. @pre it is inside the buffer.
  uint32_t chunk_at(uint64_t offset) const noexcept {
    if (chunks.size() == 1) [[likely]]
      return 0;
    const auto behind = std::upper_bound(chunks.begin(), chunks.end(), offset,
                                         [](uint64_t at, const Chunk& chunk) { return at < chunk.offset; });
    return static_cast<uint32_t>(behind - chunks.begin()) - 1;
  }
  const Key& key(uint32_t chunk, uint32_t rail) const noexcept { return keys[size_t{chunk} * rails + rail]; }
};

}  // namespace sluice
