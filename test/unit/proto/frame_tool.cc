// Judges captured control frames: hex lines on stdin, verdicts on stdout, in the format of test/data/ctrl_frames.txt.
#include <iostream>
#include <string>

#include "frame_verdict.h"
#include "proto/ctrl_frame.h"

int main(int argc, char** argv) {
  const bool ours = argc == 2 && std::string_view(argv[1]) == "--ours";
  if (argc > 1 && !ours) {
    std::cerr
        << "usage: frame-tool [--ours] < FRAMES\n"
           "Reads one frame in hex per line (what follows the first word is ignored, as are blank lines and lines\n"
           "that start with #) and says what the codec makes of it. --ours also accepts our own types above 10.\n";
    return 2;
  }
  const uint8_t last_type = ours ? sluice::kLastType : sluice::kLastPublishedType;
  int status = 0;
  size_t number = 0;
  for (std::string line; std::getline(std::cin, line);) {
    ++number;
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos || line[begin] == '#') continue;
    const std::string word = line.substr(begin, line.find_first_of(" \t\r", begin) - begin);
    const auto bytes = sluice::test::parse_hex(word);
    if (!bytes) {
      std::cerr << "frame-tool: line " << number << ": \"" << word.substr(0, 40) << (word.size() > 40 ? "..." : "")
                << "\" is not a frame in hex; give an even number of digits 0-9 a-f, or - for no bytes\n";
      status = 1;
      continue;
    }
    std::cout << word << ' ' << sluice::test::frame_verdict(*bytes, last_type) << '\n';
  }
  return status;
}
