// The contract suite's program: also the peer process that some of its tests kill.
#include <gtest/gtest.h>

#include <string_view>

#include "peer_process.h"

int main(int argc, char** argv) {
  using sluice::contract::run_peer;
  if (argc == 3 && std::string_view(argv[1]) == "--peer") return run_peer(argv[2], false);
  if (argc == 3 && std::string_view(argv[1]) == "--silent-peer") return run_peer(argv[2], true);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
