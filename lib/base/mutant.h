/// @file mutant.h
/// Deliberate faults, for tests of the tests: each of them must be found by the simulator.
///
/// Model    Built in with -Dmutants=true only, and then one at a time may be switched on. Without it mutant() is false
///          at compile time, and the branches that ask it are not there.
/// Threads  Set before anything runs.
/// Memory   One byte.
/// Errors   None.
#pragma once

#include <cstdint>

namespace sluice {

enum class Mutant : uint8_t {
  kNone,
  kIncrementalGrants,  ///< A grant counts as an addition, not as a total.
  kNoRequestTimer,     ///< A lane that waits never sends CREDIT_REQUEST.
  kFullRollback,       ///< After a partial post all of the burst counts as not posted.
  kNoEpochCheck,       ///< Messages, grants and fences of any epoch count.
  kShrinkTooFar,       ///< A session that was fenced is granted less than one message from then on.
  kGrantsFromData,     ///< A grant waits for credit of the data path.
  kOneByOne,           ///< What of a reservation fits is kept, though the rest does not.
  kSharedPool,         ///< A request holds its receive slot until it is answered.
  kReleaseFirst,       ///< A receive is posted again before its message was placed.
  kGrantFirst,         ///< Credit returns before the receive is posted again.
  kDoneAtPost,         ///< A write is done when it was posted.
  kNotifyFirst,        ///< The notify of a batch does not wait for its tasks.
  kNoGeneration,       ///< A task's number counts without its generation.
  kCount,
};

#ifdef SLUICE_MUTANTS
inline Mutant active_mutant = Mutant::kNone;
inline bool mutant(Mutant which) noexcept { return active_mutant == which; }
#else
constexpr bool mutant(Mutant) noexcept { return false; }
#endif

}  // namespace sluice
