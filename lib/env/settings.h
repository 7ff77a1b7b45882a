/// @file settings.h
/// One typed table of settings, from which the command line, the file, --help and the documentation come.
///
/// Model    A Setting is a row; a program passes the node's rows and rows of its own. Settings holds one value for each
///          row, and where it came from: the command line wins over the file, the file over the default, in
///          whatever order they are read.
/// Threads  Slow calls, one thread.
/// Memory   Allocates. Rows are constant and outlive it.
/// Errors   kBadArgument, with one line for each thing that is wrong: where, name, value, remedy. Then nothing of that
///          source is applied. No value throws.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace sluice {

enum class SettingType : uint8_t {
  kBool,    ///< true or false; on the command line --name, --name=false or --no-name.
  kUint,    ///< A whole number.
  kSize,    ///< Bytes, with k, M or G (1024).
  kChoice,  ///< One of Setting::choices.
  kString,
  kSecret,  ///< A string that is never printed.
  kList,    ///< Strings, given repeatedly or with commas.
};

struct Setting {
  std::string_view name;  ///< kebab-case; in a file with underscores.
  SettingType type;
  std::string_view initial;  ///< The default, as text.
  std::string_view group;    ///< A heading of --help and of the page.
  std::string_view help;     ///< One line.
  std::string_view unit = {};
  uint64_t min = 0;  ///< For kUint and kSize.
  uint64_t max = UINT64_MAX;
  std::string_view choices = {};  ///< For kChoice: "a|b|c".
};

using SettingRows = std::span<const Setting>;

enum class SettingSource : uint8_t { kDefault, kFile, kCommandLine };

class Settings {
 public:
  /// @pre names are unique, and each default fits its row.
  explicit Settings(std::vector<SettingRows> tables);

  /// Take "--name value" words (those after "--" of the program's command line). When they ask for help, nothing is
  /// applied and @p help receives the text; else it stays empty. @return kBadArgument.
  Status parse_command_line(std::string_view program, std::string_view about, const std::vector<std::string>& words,
                            std::string* help);
  /// Take a TOML file: one key for each setting. @return kNotFound, kBadArgument.
  Status parse_file(const std::string& path);

  /// @pre the row exists and has the type. A number for kUint and kSize; text for kChoice, kString and kSecret.
  bool flag(std::string_view name) const noexcept;
  uint64_t number(std::string_view name) const noexcept;
  const std::string& text(std::string_view name) const noexcept;
  std::vector<std::string> list(std::string_view name) const;
  /// "default", "node.toml:3" or "command line".
  const std::string& source(std::string_view name) const noexcept;

  /// One line for each setting: name = value, and its source. A secret is not shown.
  std::string effective() const;

 private:
  struct Value {
    const Setting* row;
    std::string text;  // kBool: "true" or "false"; kList: joined with commas
    uint64_t number = 0;
    SettingSource rank = SettingSource::kDefault;
    std::string source;
  };
  /// A value that was read and not yet applied.
  struct Reading {
    const Setting* row;
    std::string text;
    std::string where;
  };
  const Value& at(std::string_view name, std::initializer_list<SettingType> types) const noexcept;
  Status apply(SettingSource rank, const std::vector<Reading>& readings, std::string errors);

  std::vector<SettingRows> tables_;
  std::vector<Value> values_;
};

/// What @p text means to @p row, for a number; the line of the error, without its place, when it does not fit.
/// @return kBadArgument.
Status check_setting(const Setting& row, std::string_view text, uint64_t* number);

/// "10 to 60000 ms", "at least 1"; empty when all is allowed.
std::string range_text(const Setting& row);

/// The documentation page: a table for each group.
std::string settings_page(const std::vector<SettingRows>& tables);

}  // namespace sluice
