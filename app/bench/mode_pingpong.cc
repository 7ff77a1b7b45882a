// One task at a time: latency.
#include "measure.h"
#include "modes.h"

namespace sluice::bench {

Status run_pingpong(const Setup& setup, Report* report) {
  std::vector<std::unique_ptr<Generator>> generators;
  for (uint32_t i = 0; i < generator_count(setup); ++i) generators.push_back(std::make_unique<TransferGenerator>());
  Source source(setup, generators);
  if (Status s = source.start(); !s.ok()) return s;
  if (Status s = source.connect(); !s.ok()) return s;
  return measure_transfers("pingpong", setup, source, generators, {1, 1}, report);
}

}  // namespace sluice::bench
