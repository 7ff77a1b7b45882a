/// @file measure.h
/// One measured run: warm-up, timed slices, and what is verified between them.
///
/// Model    The same for every mode; a Work says what is prepared and what is checked.
/// Threads  The main thread.
/// Memory   Allocates.
/// Errors   Status of what kept it from running; a failed or wrong transfer is in Run::trouble.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "report.h"
#include "source.h"
#include "transfer.h"

namespace sluice::bench {

/// What a mode does around the slices.
class Work {
 public:
  virtual ~Work() = default;
  virtual Status prepare() = 0;
  /// Compare what the last slice moved. @return kOk also when it is wrong: then @p wrong says how.
  virtual Status verify(std::string* wrong) = 0;
};

/// Run @p work on the generators of @p source, and fill in what was measured; block, batch and depth are set in @p run.
Status measure(const Setup& setup, Source& source, Source::Generators generators, Work& work, Run* run);

/// How many generators there are: one, or one for each thread.
inline uint32_t generator_count(const Setup& setup) { return std::max(1u, setup.options.threads); }

/// Writes and reads: one run for each block size. @p source is connected.
Status measure_transfers(std::string_view mode, const Setup& setup, Source& source, Source::Generators generators,
                         const BatchShape& shape, Report* report);

}  // namespace sluice::bench
