// KV caches: a request moves thousands of descriptors, as prefill (write) or decode (read) does. Times are of requests.
#include <algorithm>

#include "measure.h"
#include "modes.h"

namespace sluice::bench {

Status run_kv(const Setup& setup, Report* report) {
  const KvShape& kv = setup.options.kv;
  std::vector<std::unique_ptr<Generator>> generators;
  for (uint32_t i = 0; i < generator_count(setup); ++i) generators.push_back(std::make_unique<TransferGenerator>());
  Source source(setup, generators);
  if (Status s = source.start(); !s.ok()) return s;
  if (Status s = source.connect(); !s.ok()) return s;
  BatchShape shape{kv.descriptors, setup.options.depth};
  if (kv.notify) shape.depth = std::min(shape.depth, kMaxNotifies);
  shape.offsets = kv.offsets;
  shape.range_bytes = kv.range_bytes;
  shape.whole = true;
  shape.notify = kv.notify;
  shape.note = kv.note;
  return measure_transfers("kv", setup, source, generators, shape, report);
}

}  // namespace sluice::bench
