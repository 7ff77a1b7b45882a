// One program: the tests, and, started with --node, one of the nodes that they need.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>

#include "child.h"

int main(int argc, char** argv) {
  (void)signal(SIGPIPE, SIG_IGN);
  if (argc > 2 && std::strcmp(argv[1], "--node") == 0) return sluice::func::node_process(argc, argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
