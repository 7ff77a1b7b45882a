/// @file wire.h
/// How the bench's source asks its target for something: records in the target's segment.
///
/// Model    The source writes an Order at kOrderAt with a notify behind it; the target's application thread carries it
///          out and leaves an Outcome at kOutcomeAt, which the source reads until its number is there. Data follow
///          at kDataAt. One source at a time: an Outcome with another nonce was meant for another.
/// Threads  Plain data.
/// Memory   No heap.
/// Errors   Sizes in an Order come from outside: the target checks each against its segment.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::bench {

inline constexpr std::string_view kSegmentName = "bench";
inline constexpr std::string_view kOrderNotify = "order";
inline constexpr std::string_view kCountedNotify = "counted";
inline constexpr uint32_t kMaxRanges = 4096;  ///< Generators times batches in flight.
inline constexpr uint32_t kMaxGenerators = 64;
inline constexpr uint32_t kMaxNotifies = 32;  ///< That a port lets be under way.

enum class OrderKind : uint64_t {
  kPrepare = 1,  ///< Fill what will be read, clear what will be written, forget what was counted.
  kCheck = 2,    ///< Compare each byte that the last round of each range wrote.
  kCounted = 3,  ///< Tell what notifies came, and about memory: every order does.
};

struct Order {
  uint64_t nonce, number;
  OrderKind kind;
  uint64_t seed;
  uint64_t write_at, read_at;   ///< Offsets in the segment.
  uint64_t area_bytes;          ///< Of one generator, in one direction, without the pad.
  uint64_t range_bytes;         ///< One batch.
  uint64_t generators, ranges;  ///< Ranges: batches in flight of each generator.
  uint64_t writes, reads;       ///< Whether there is an area for it: 0 or 1.
  uint64_t rounds[kMaxRanges];  ///< kCheck: the last round that wrote each range; 0: none.
};

struct Outcome {
  uint64_t nonce, number;
  uint64_t refused;                               ///< 1: the order does not fit the segment.
  uint64_t checked_bytes, bad_at, bad_generator;  ///< bad_at: kNoBadByte, or the first wrong byte in its area.
  uint64_t received, repeated, missing, garbled;  ///< Notifies.
  uint64_t extents_min, extents_max, extents;     ///< Bounce memory of the target, since the last kPrepare; and now.
};

/// What a counted notify begins with; bytes of the pattern follow.
struct CountedNotify {
  uint64_t nonce, generator, number;
};

inline constexpr uint64_t kOrderAt = 0;
inline constexpr uint64_t kOutcomeAt = 60 * 1024;
inline constexpr uint64_t kDataAt = 64 * 1024;
static_assert(sizeof(Order) <= kOutcomeAt);

}  // namespace sluice::bench
