#include "kv.h"

#include <algorithm>
#include <numeric>

#include "report.h"

namespace sluice::bench {
namespace {
using enum SettingType;
constexpr uint64_t kMaxDescriptors = 1u << 23;  // below what a port takes

constexpr Setting kRows[] = {
    // name, type, default, group, help, unit, min, max, choices
    {"kv-model", kChoice, "llama-3-70b", "KV cache (mode kv)", "Whose KV cache moves", "", 0, 0, kKvModels},
    {"kv-tensor-parallel", kUint, "1", "KV cache (mode kv)", "Ranks that share it; one of them is run", "ranks", 1, 64},
    {"kv-tokens", kUint, "8192", "KV cache (mode kv)", "Of a request", "tokens", 1, 1u << 20},
    {"kv-page", kUint, "16", "KV cache (mode kv)", "Tokens of a page", "tokens", 1, 4096},
    {"kv-layout", kChoice, "layer", "KV cache (mode kv)",
     "layer: a descriptor for each page of each layer; block: one for each page, of all layers", "", 0, 0,
     "layer|block"},
    {"kv-run", kUint, "1", "KV cache (mode kv)", "Descriptors one behind another at both ends; 0: all", "descriptors",
     0, 1u << 20},
    {"kv-notify", kBool, "false", "KV cache (mode kv)", "A notify behind each request"},
    {"kv-memory", kSize, "64M", "KV cache (mode kv)",
     "Memory of a request at each end; what it has more begins again at the start", "SIZE", 64 * 1024, 1ull << 40},
};

// From the models' published configurations, in bf16.
struct Model {
  std::string_view name;
  uint32_t layers;
  uint32_t heads;       // for keys and values; 0: one latent for all, on every rank
  uint32_t head_bytes;  // of one token and layer: key and value of a head, or the latent
};
constexpr Model kModels[] = {{"llama-3-70b", 80, 8, 512},
                             {"llama-3.1-8b", 32, 8, 512},
                             {"qwen3-235b", 94, 4, 512},
                             {"deepseek-v3", 61, 0, 1152}};

/// Bytes of one token and layer on one of @p ranks; 0 when they cannot share the model's heads.
uint64_t token_bytes(const Model& model, uint64_t ranks) {
  if (model.heads == 0) return model.head_bytes;
  if (model.heads % ranks != 0 && ranks % model.heads != 0) return 0;
  return std::max<uint64_t>(1, model.heads / ranks) * model.head_bytes;
}

/// Runs in an order in which none follows the one before it in memory, where there are enough of them.
uint64_t step_of(uint64_t runs) {
  for (uint64_t step = runs * 5 / 8; step < runs; ++step)
    if (step > 1 && std::gcd(step, runs) == 1) return step;
  return runs > 1 ? runs - 1 : 1;
}

void place(uint64_t run, uint64_t memory, KvShape* out) {
  uint64_t slots = std::clamp<uint64_t>(memory / out->block, 1, out->descriptors);
  run = run == 0 ? slots : std::min(run, slots);
  slots -= slots % run;
  const uint64_t runs = slots / run, step = step_of(runs);
  out->range_bytes = slots * out->block;
  out->offsets.reserve(out->descriptors);
  for (uint64_t i = 0; i < out->descriptors; ++i)
    out->offsets.push_back((i / run % runs * step % runs * run + i % run) * out->block);
}
}  // namespace

SettingRows kv_rows() noexcept { return kRows; }

Status read_kv_shape(const Settings& settings, KvShape* out) {
  const Model* const model = std::ranges::find(kModels, std::string_view(settings.text("kv-model")), &Model::name);
  const uint64_t ranks = settings.number("kv-tensor-parallel"), page = settings.number("kv-page");
  const uint64_t per_token = token_bytes(*model, ranks);
  if (per_token == 0)
    return {Code::kBadArgument, "kv-tensor-parallel = " + std::to_string(ranks) + ": " + std::string(model->name) +
                                    " has " + std::to_string(model->heads) +
                                    " heads for keys and values; give a divisor or a multiple of that"};
  const uint64_t tokens = settings.number("kv-tokens"), pages = (tokens + page - 1) / page;
  const bool by_layer = settings.text("kv-layout") == "layer";
  const uint64_t count = by_layer ? pages * model->layers : pages;
  KvShape shape;
  shape.block = page * per_token * (by_layer ? 1 : model->layers);
  if (count > kMaxDescriptors)
    return {Code::kBadArgument, "kv-tokens = " + std::to_string(tokens) + ": this makes " + std::to_string(count) +
                                    " descriptors of a request, at most " + std::to_string(kMaxDescriptors) +
                                    "; lower it, or raise kv-page"};
  shape.descriptors = static_cast<uint32_t>(count);
  shape.notify = settings.flag("kv-notify");
  const uint64_t run = settings.number("kv-run");
  place(run, settings.number("kv-memory"), &shape);
  shape.note = std::string(model->name) + ", " + std::to_string(ranks) + (ranks == 1 ? " rank, " : " ranks, ") +
               std::to_string(tokens) + " tokens in pages of " + std::to_string(page) + ", by " +
               settings.text("kv-layout") + ", runs of " + (run == 0 ? "all" : std::to_string(run)) + ": " +
               std::to_string(count) + " descriptors of " + size_text(shape.block) + ", " +
               size_text(count * shape.block) + " a request" + (shape.notify ? ", with a notify" : "");
  *out = std::move(shape);
  return Code::kOk;
}

}  // namespace sluice::bench
