#include "engine/memory_snapshot.h"

#include <algorithm>

#include "base/bytes.h"

namespace sluice {
namespace {
bool starts_behind(const std::byte* addr, const MemorySpan& span) noexcept { return addr < span.base; }
}  // namespace

// The page in which addr lies or would lie. @pre there is a page.
size_t MemorySnapshot::page_of(const std::byte* addr) const noexcept {
  const auto behind = std::upper_bound(pages_.begin(), pages_.end(), addr,
                                       [](const std::byte* a, const Page& page) { return a < page.first; });
  return behind == pages_.begin() ? 0 : static_cast<size_t>(behind - pages_.begin()) - 1;
}

const MemorySpan* MemorySnapshot::find(const std::byte* addr, uint64_t length) const noexcept {
  if (pages_.empty()) return nullptr;
  const Spans& spans = *pages_[page_of(addr)].spans;
  auto it = std::upper_bound(spans.begin(), spans.end(), addr, starts_behind);
  if (it == spans.begin()) return nullptr;
  --it;
  return range_ok(static_cast<uint64_t>(addr - it->base), length, it->bytes) ? &*it : nullptr;
}

std::shared_ptr<MemorySnapshot> MemorySnapshot::with(const MemorySpan& span) const {
  auto fresh = std::make_shared<MemorySnapshot>(*this);
  if (pages_.empty()) {
    fresh->pages_.push_back({span.base, std::make_shared<const Spans>(Spans{span})});
    return fresh;
  }
  const size_t at = page_of(span.base);
  Spans spans;
  spans.reserve(pages_[at].spans->size() + 1);
  spans = *pages_[at].spans;
  spans.insert(std::upper_bound(spans.begin(), spans.end(), span.base, starts_behind), span);
  if (spans.size() > kPage) {
    const auto half = spans.begin() + kPage / 2;
    auto upper = std::make_shared<const Spans>(half, spans.end());
    spans.erase(half, spans.end());
    fresh->pages_.insert(fresh->pages_.begin() + static_cast<ptrdiff_t>(at) + 1, {upper->front().base, upper});
  }
  fresh->pages_[at] = {spans.front().base, std::make_shared<const Spans>(std::move(spans))};
  return fresh;
}

std::shared_ptr<MemorySnapshot> MemorySnapshot::without(const std::byte* base) const {
  auto fresh = std::make_shared<MemorySnapshot>(*this);
  if (pages_.empty()) return fresh;
  const size_t at = page_of(base);
  Spans spans = *pages_[at].spans;
  std::erase_if(spans, [base](const MemorySpan& span) { return span.base == base; });
  if (spans.empty())
    fresh->pages_.erase(fresh->pages_.begin() + static_cast<ptrdiff_t>(at));
  else
    fresh->pages_[at] = {spans.front().base, std::make_shared<const Spans>(std::move(spans))};
  return fresh;
}

}  // namespace sluice
