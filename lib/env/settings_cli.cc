#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>

#include "env/settings.h"

namespace sluice {
namespace {
CLI::Option* add_row(CLI::App& app, const Setting& row, std::string* text) {
  const std::string name = "--" + std::string(row.name);
  const std::string range = range_text(row);
  // const, or CLI11 takes it for the place of the flag's value
  const std::string help = std::string(row.help) + (range.empty() ? "" : " (" + range + ")");
  CLI::Option* option = nullptr;
  if (row.type == SettingType::kBool) {
    option = app.add_flag(name + ",!--no-" + std::string(row.name), help);
  } else {
    option = app.add_option(name, *text, help);
    if (row.type == SettingType::kList) option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::Join);
    option->type_name(row.type == SettingType::kChoice ? std::string(row.choices)
                      : row.unit.empty()               ? "VALUE"
                                                       : std::string(row.unit));
  }
  option->group(std::string(row.group));
  if (!row.initial.empty()) option->default_str(std::string(row.initial));
  return option;
}

// One line for each word that no option took; a bare word after an unknown option belongs to it.
std::string unknown_words(const std::vector<std::string>& words) {
  std::string lines;
  bool after_option = false;
  for (const std::string& word : words) {
    const bool is_option = word.starts_with("-");
    if (is_option || !after_option)
      lines.append(lines.empty() ? "" : "\n")
          .append("command line: ")
          .append(is_option ? "unknown option " : "unexpected word ")
          .append(word)
          .append(": --help lists the options");
    after_option = is_option;
  }
  return lines;
}
}  // namespace

Status Settings::parse_command_line(std::string_view program, std::string_view about,
                                    const std::vector<std::string>& words, std::string* help) {
  help->clear();
  CLI::App app{std::string(about), std::string(program)};
  app.allow_extras();
  app.get_formatter()->column_width(40);
  std::vector<std::string> texts(values_.size());
  std::vector<CLI::Option*> options;
  std::vector<Reading> readings;
  try {
    for (size_t i = 0; i < values_.size(); ++i) options.push_back(add_row(app, *values_[i].row, &texts[i]));
    std::vector<std::string> last_first;  // as CLI11 takes them
    for (auto word = words.rbegin(); word != words.rend(); ++word) {
      const bool empty = word->starts_with("--") && word->ends_with('=');  // CLI11 would take the next word for it
      if (empty) last_first.emplace_back();
      last_first.push_back(empty ? word->substr(0, word->size() - 1) : *word);
    }
    app.parse(std::move(last_first));
    for (size_t i = 0; i < values_.size(); ++i) {
      if (options[i]->count() == 0) continue;
      const bool is_flag = values_[i].row->type == SettingType::kBool;
      std::string text = is_flag ? options[i]->results().back() : texts[i];
      if (values_[i].row->type == SettingType::kList) std::ranges::replace(text, '\n', ',');
      readings.push_back({values_[i].row, std::move(text), "command line"});
    }
  } catch (const CLI::CallForHelp&) {
    *help = app.help();
    return Code::kOk;
  } catch (const CLI::Error& error) {
    return {Code::kBadArgument, std::string("command line: ") + error.what() + "; --help lists the options"};
  }
  return apply(SettingSource::kCommandLine, readings, unknown_words(app.remaining()));
}

}  // namespace sluice
