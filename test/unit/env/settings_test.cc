#include "env/settings.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/log.h"
#include "env/node_settings.h"

namespace sluice {
namespace {
using Words = std::vector<std::string>;

constexpr Setting kRows[] = {
    {"name", SettingType::kString, "", "A", "a name"},
    {"count", SettingType::kUint, "3", "A", "a count", "things", 1, 64},
    {"any", SettingType::kUint, "0", "A", "any number"},
    {"size", SettingType::kSize, "64k", "A", "a size", "SIZE", 4096, 4u << 20},
    {"mode", SettingType::kChoice, "slow", "B", "a mode", "", 0, 0, "slow|fast"},
    {"verify", SettingType::kBool, "true", "B", "a bool"},
    {"secret", SettingType::kSecret, "", "B", "a secret"},
    {"segment", SettingType::kList, "", "B", "a list"},
};
constexpr Setting kMore[] = {{"extra", SettingType::kBool, "false", "C", "of a program"}};

Settings fresh() { return Settings({kRows, kMore}); }

Status read(Settings& settings, const Words& words) {
  std::string help;
  return settings.parse_command_line("tool", "about", words, &help);
}

class File {
 public:
  explicit File(const std::string& text) { std::ofstream(path_) << text; }
  ~File() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = (std::filesystem::temp_directory_path() / ("settings" + std::to_string(::getpid()))).string();
};

TEST(Settings, DefaultsHold) {
  const Settings settings = fresh();
  EXPECT_EQ(settings.text("name"), "");
  EXPECT_EQ(settings.number("count"), 3u);
  EXPECT_EQ(settings.number("size"), 65536u);
  EXPECT_EQ(settings.text("mode"), "slow");
  EXPECT_TRUE(settings.flag("verify"));
  EXPECT_FALSE(settings.flag("extra"));
  EXPECT_TRUE(settings.list("segment").empty());
  EXPECT_EQ(settings.source("size"), "default");
}

TEST(Settings, AnEmptyValueIsEmptyAndNotTheNextWord) {
  Settings settings = fresh();
  const Status status = read(settings, {"--name=", "--count=4", "--segment=", "--size", "4k"});
  ASSERT_TRUE(status.ok()) << status.text();
  EXPECT_EQ(settings.text("name"), "");
  EXPECT_EQ(settings.number("count"), 4u);
  EXPECT_EQ(settings.list("segment"), std::vector<std::string>{});
  EXPECT_EQ(settings.number("size"), 4096u);
  EXPECT_NE(read(settings, {"--count="}).text().find("count"), std::string::npos);
}

TEST(Settings, CommandLineSetsEveryType) {
  Settings settings = fresh();
  const Status status =
      read(settings, {"--name", "n", "--count=64", "--size", "1M", "--mode", "fast", "--no-verify", "--extra",
                      "--secret", "s3", "--segment", "a=1,b=2", "--segment", "c=3", "--any", "18446744073709551615"});
  ASSERT_TRUE(status.ok()) << status.text();
  EXPECT_EQ(settings.text("name"), "n");
  EXPECT_EQ(settings.number("count"), 64u);
  EXPECT_EQ(settings.number("size"), 1u << 20);
  EXPECT_EQ(settings.text("mode"), "fast");
  EXPECT_FALSE(settings.flag("verify"));
  EXPECT_TRUE(settings.flag("extra"));
  EXPECT_EQ(settings.text("secret"), "s3");
  EXPECT_EQ(settings.list("segment"), (Words{"a=1", "b=2", "c=3"}));
  EXPECT_EQ(settings.number("any"), UINT64_MAX);
  EXPECT_EQ(settings.source("size"), "command line");
}

TEST(Settings, EveryNumberRefusesWhatItCannotBe) {
  for (const char* value : {"0", "65", "-1", "99999999999999999999999", "ten", "", "1.5", "3k", "0x10", " 3"}) {
    Settings settings = fresh();
    const Status status = read(settings, {std::string("--count=") + value});
    EXPECT_EQ(status.code(), Code::kBadArgument) << value;
    EXPECT_EQ(settings.number("count"), 3u);
    EXPECT_EQ(std::ranges::count(status.text(), '\n'), 0);
  }
  Settings settings = fresh();
  EXPECT_EQ(read(settings, {"--count", "-1"}).text(),
            "command line: count = \"-1\": give a whole number, 1 to 64 things");
  EXPECT_EQ(read(settings, {"--size", "8M"}).text(),
            "command line: size = \"8M\": give a size such as 4k, 64k or 1M, 4k to 4M bytes");
  EXPECT_EQ(read(settings, {"--size", "99999999999999999G"}).code(), Code::kBadArgument);
  EXPECT_EQ(read(settings, {"--size", "k"}).code(), Code::kBadArgument);
  EXPECT_EQ(read(settings, {"--mode", "fas"}).text(), "command line: mode = \"fas\": give one of slow, fast");
}

TEST(Settings, CommandLineReportsAllErrorsAndAppliesNone) {
  Settings settings = fresh();
  const Status status = read(settings, {"--name", "n", "--count", "0", "--bogus", "x", "--mode", "z", "--also=1"});
  EXPECT_EQ(status.code(), Code::kBadArgument);
  EXPECT_EQ(status.text(),
            "command line: unknown option --bogus: --help lists the options\n"
            "command line: unknown option --also=1: --help lists the options\n"
            "command line: count = \"0\": give a whole number, 1 to 64 things\n"
            "command line: mode = \"z\": give one of slow, fast");
  EXPECT_EQ(settings.text("name"), "");
  EXPECT_EQ(read(settings, {"stray"}).text(), "command line: unexpected word stray: --help lists the options");
  EXPECT_EQ(read(settings, {"--count"}).code(), Code::kBadArgument);
  EXPECT_EQ(read(settings, {"--count", "1", "--count", "2"}).code(), Code::kBadArgument);
  EXPECT_EQ(read(settings, {"--verify=perhaps"}).code(), Code::kBadArgument);
}

TEST(Settings, HelpComesFromTheTable) {
  Settings settings = fresh();
  std::string help;
  ASSERT_TRUE(settings.parse_command_line("tool", "about it", {"--count", "0", "--help"}, &help).ok());
  for (const char* part : {"about it", "--count", "a count", "--size", "64k", "slow|fast", "of a program"})
    EXPECT_NE(help.find(part), std::string::npos) << part << " in\n" << help;
}

TEST(Settings, HelpTellsEachRange) {
  Settings settings({node_rows()});
  std::string help;
  ASSERT_TRUE(settings.parse_command_line("tool", "about it", {"--help"}, &help).ok());
  std::string words;  // the help folds its lines
  for (const char c : help)
    if (c != ' ' && c != '\n') words += c;
  for (const Setting& row : node_rows()) {
    std::string range = range_text(row);
    EXPECT_EQ(range.empty(), row.type != SettingType::kUint && row.type != SettingType::kSize) << row.name;
    std::erase(range, ' ');
    if (!range.empty()) {
      EXPECT_NE(words.find("(" + range + ")"), std::string::npos) << row.name << " in\n" << help;
    }
  }
}

TEST(Settings, AStartSetsTheLogLevelAndLogsEachSettingAtDebug) {
  const LogLevel before = log_level();
  for (const bool debug : {false, true}) {
    Settings settings({node_rows()});
    NodeSettings node;
    std::string help;
    testing::internal::CaptureStderr();
    const Status s = load_node_settings(
        "tool", "about", {"--workers=3", "--secret=sesame", debug ? "--log-level=debug" : "--log-level=error"},
        &settings, &node, &help);
    const std::string out = testing::internal::GetCapturedStderr();
    ASSERT_TRUE(s.ok()) << s.text();
    EXPECT_EQ(log_level(), debug ? LogLevel::kDebug : LogLevel::kError);
    EXPECT_EQ(out.find("workers = 3  # command line\n") != std::string::npos, debug) << out;
    EXPECT_EQ(out.find("lease-ms = 2000  # default\n") != std::string::npos, debug) << out;
    EXPECT_EQ(out.find("sesame"), std::string::npos);
    EXPECT_EQ(out.empty(), !debug) << out;
  }
  set_log_level(before);
}

TEST(Settings, FileSetsEveryTypeAndSaysWhere) {
  Settings settings({node_rows(), SettingRows(kRows).last(1)});
  const File file(
      "# node\nheartbeat_ms = 100\nslot_size = \"128k\"\nctrl_slot_size = 8192\nverify_crc = true\n"
      "segment = [\"a=1\", \"b=2\"]\ncpus = [0, \"2-3\"]\nidle = \"busy\"\n");
  const Status status = settings.parse_file(file.path());
  ASSERT_TRUE(status.ok()) << status.text();
  EXPECT_EQ(settings.number("heartbeat-ms"), 100u);
  EXPECT_EQ(settings.number("slot-size"), 131072u);
  EXPECT_EQ(settings.number("ctrl-slot-size"), 8192u);
  EXPECT_TRUE(settings.flag("verify-crc"));
  EXPECT_EQ(settings.list("segment"), (Words{"a=1", "b=2"}));
  EXPECT_EQ(settings.list("cpus"), (Words{"0", "2-3"}));
  EXPECT_EQ(settings.source("heartbeat-ms"), file.path() + ":2");
}

TEST(Settings, FileReportsAllErrorsAndAppliesNone) {
  Settings settings = fresh();
  const File file("name = \"n\"\ncount = \"4\"\nsize = 1\nverify = 1\nnope = 2\nmode = \"z\"\nany = -1\n[table]\n");
  const Status status = settings.parse_file(file.path());
  EXPECT_EQ(status.code(), Code::kBadArgument);
  for (const char* part :
       {":2: count: give a whole number, without quotes", ":3: size = \"1\": give a size",
        ":4: verify: give true or false", ":5: unknown setting nope", ":6: mode = \"z\": give one of slow, fast",
        ":7: any = \"-1\": give a whole number", ":8: unknown setting table"})
    EXPECT_NE(status.text().find(file.path() + part), std::string::npos) << part << " in\n" << status.text();
  EXPECT_EQ(std::ranges::count(status.text(), '\n'), 6);
  EXPECT_EQ(settings.text("name"), "");
}

TEST(Settings, FileThatIsNotOneIsRefused) {
  Settings settings = fresh();
  EXPECT_EQ(settings.parse_file("/no/such/file").code(), Code::kNotFound);
  EXPECT_EQ(settings.parse_file("/").code(), Code::kNotFound);
  const File broken("count = = 3\n");
  const Status status = settings.parse_file(broken.path());
  EXPECT_EQ(status.code(), Code::kBadArgument);
  EXPECT_NE(status.text().find(broken.path() + ":1: "), std::string::npos) << status.text();
  const File empty("");
  EXPECT_TRUE(settings.parse_file(empty.path()).ok());
}

TEST(Settings, CommandLineWinsOverFileInAnyOrder) {
  const File file("count = 7\nany = 8\n");
  Settings settings = fresh();
  ASSERT_TRUE(read(settings, {"--count", "9"}).ok());
  ASSERT_TRUE(settings.parse_file(file.path()).ok());
  EXPECT_EQ(settings.number("count"), 9u);
  EXPECT_EQ(settings.number("any"), 8u);
  ASSERT_TRUE(read(settings, {"--any", "1"}).ok());
  EXPECT_EQ(settings.number("any"), 1u);
}

TEST(Settings, EffectiveShowsSourcesAndHidesSecrets) {
  Settings settings = fresh();
  ASSERT_TRUE(read(settings, {"--secret", "s3", "--size", "65536"}).ok());
  const std::string text = settings.effective();
  EXPECT_NE(text.find("size = 64k  # command line\n"), std::string::npos) << text;
  EXPECT_NE(text.find("count = 3  # default\n"), std::string::npos);
  EXPECT_NE(text.find("secret = (set)  # command line\n"), std::string::npos);
  EXPECT_EQ(text.find("s3"), std::string::npos);
}

TEST(NodeSettings, DefaultsFitTogether) {
  Settings settings({node_rows()});
  NodeSettings node{};
  std::string help;
  const Status status = load_node_settings("tool", "", {}, &settings, &node, &help);
  ASSERT_TRUE(status.ok()) << status.text();
  EXPECT_EQ(node.listen, "127.0.0.1:0");
  EXPECT_EQ(node.slot_bytes, 262144u);
  EXPECT_TRUE(node.adaptive_idle);
  EXPECT_EQ(node.lease_ms, 2000u);
}

// Every numeric setting: 0, negative, huge and text each work or are refused with one line.
TEST(NodeSettings, NoNumberBreaksAnything) {
  for (const Setting& row : node_rows()) {
    if (row.type != SettingType::kUint && row.type != SettingType::kSize) continue;
    for (const char* value : {"0", "-1", "99999999999999999999999", "4294967296", "text", "", "1G"}) {
      Settings settings({node_rows()});
      NodeSettings node{};
      std::string help;
      const Words words{"--" + std::string(row.name) + "=" + value};
      const Status status = load_node_settings("tool", "", words, &settings, &node, &help);
      if (std::string_view(value) == "0" && row.min == 0) {
        EXPECT_TRUE(status.ok()) << words[0] << ": " << status.text();
        continue;
      }
      EXPECT_EQ(status.code(), Code::kBadArgument) << words[0];
      EXPECT_NE(status.text().find(row.name), std::string::npos) << status.text();
      EXPECT_EQ(std::ranges::count(status.text(), '\n'), 0) << status.text();
    }
    EXPECT_LE(row.max, UINT32_MAX) << row.name;
  }
}

TEST(NodeSettings, RefusesWhatDoesNotFitTogetherWithALineEach) {
  Settings settings({node_rows()});
  NodeSettings node{};
  std::string help;
  const Status status = load_node_settings("tool", "",
                                           {"--lease-ms", "500", "--heartbeat-ms", "250", "--rx-slots", "2000",
                                            "--rx-slots-min", "2001", "--workers", "2", "--cpus", "1"},
                                           &settings, &node, &help);
  EXPECT_EQ(status.code(), Code::kBadArgument);
  for (const char* part : {"lease-ms = 500 and heartbeat-ms = 250: ", "rx-slots-min = 2001 and rx-slots = 2000: ",
                           "rx-slots = 2000 and rx-slots-max = 512: ", "workers = 2 and the number of cpus = 1: "})
    EXPECT_NE(status.text().find(part), std::string::npos) << part << " in\n" << status.text();
  EXPECT_EQ(std::ranges::count(status.text(), '\n'), 3);
}

TEST(NodeSettings, LoadReadsTheFileThatTheCommandLineNames) {
  const File file("workers = 2\ncpus = \"0-1\"\n");
  Settings settings({node_rows()});
  NodeSettings node{};
  std::string help;
  ASSERT_TRUE(load_node_settings("tool", "", {"--config", file.path()}, &settings, &node, &help).ok());
  EXPECT_EQ(node.cpus, (std::vector<int>{0, 1}));
}

TEST(NodeSettings, CpusAreNumbersAndRanges) {
  std::vector<int> cpus;
  ASSERT_TRUE(parse_cpus({"0-2", "8"}, &cpus).ok());
  EXPECT_EQ(cpus, (std::vector<int>{0, 1, 2, 8}));
  for (const char* bad : {"a", "-1", "3-1", "1-", "1-2-3", "0-99999999", "1x"})
    EXPECT_EQ(parse_cpus({bad}, &cpus).code(), Code::kBadArgument) << bad;
}

TEST(NodeSettings, WordsArePartedAtTheFirstDoubleHyphen) {
  Words eal;
  Words own;
  const char* both[] = {"tool", "-l", "0", "--", "--name", "x", "--"};
  split_words(7, both, &eal, &own);
  EXPECT_EQ(eal, (Words{"-l", "0"}));
  EXPECT_EQ(own, (Words{"--name", "x", "--"}));
  const char* none[] = {"tool", "--self"};
  split_words(2, none, &eal, &own);
  EXPECT_TRUE(eal.empty());
  EXPECT_EQ(own, (Words{"--self"}));
}

TEST(SettingsPage, IsTheOneInTheTree) {
  std::ifstream file(SETTINGS_PAGE);
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_EQ(page.str(), settings_page({node_rows()})) << "make it anew: settings-doc > doc/settings.md";
}

}  // namespace
}  // namespace sluice
