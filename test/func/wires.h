// The fixture of tests that run over several wires: a node here, and peers in processes of their own.
#pragma once

#include <gtest/gtest.h>

#include "child.h"

namespace sluice::func {

class Wires : public ::testing::TestWithParam<Wire> {
 protected:
  void start(const Options& changes = {}) {
    const Status s = here_.start(words_of(GetParam(), "here", changes));
    ASSERT_TRUE(s.ok()) << s.describe();
    fill(here_.at(0), kSegment, 1);
  }
  SegmentHandle open(const std::string& address) {
    SegmentHandle segment{};
    const Status s = here_.engine->open_segment(address, "pool", &segment);
    EXPECT_TRUE(s.ok()) << s.describe();
    return segment;
  }
  SegmentHandle open(const Child& peer) { return open(peer.address); }
  /// Poll the port until some task of @p batch is done.
  bool begun(BatchHandle batch) {
    return wait_for(30, [&] { return here_.port->poll(), here_.status(batch).done != 0; });
  }
  TestNode here_;
};

inline std::string wire_name(const ::testing::TestParamInfo<Wire>& row) { return row.param.name; }
inline void PrintTo(const Wire& wire, std::ostream* out) { *out << wire.name; }

}  // namespace sluice::func
