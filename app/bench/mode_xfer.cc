// Blocks, in batches, as many in flight as asked for: bandwidth and message rate.
#include "measure.h"
#include "modes.h"

namespace sluice::bench {

Status run_xfer(const Setup& setup, Report* report) {
  std::vector<std::unique_ptr<Generator>> generators;
  for (uint32_t i = 0; i < generator_count(setup); ++i) generators.push_back(std::make_unique<TransferGenerator>());
  Source source(setup, generators);
  if (Status s = source.start(); !s.ok()) return s;
  if (Status s = source.connect(); !s.ok()) return s;
  return measure_transfers("xfer", setup, source, generators, {setup.options.batch, setup.options.depth}, report);
}

}  // namespace sluice::bench
