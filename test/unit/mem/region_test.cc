#include "mem/region.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <sstream>
#include <string>
#include <utility>

#include "base/meminfo.h"
#include "mem/page_size.h"

namespace sluice {
namespace {

TEST(MemInfo, ReadsItsFieldsAndNoOthers) {
  const MemInfo info = parse_meminfo(
      "MemTotal:       100 kB\nMemAvailable:    7 kB\nXHugePages_Free: 99\nHugePages_Total:   5\n"
      "HugePages_Free:    4\nHugePages_Rsvd:    1\nHugepagesize:    2048 kB\n");
  EXPECT_EQ(info.available_bytes, 7u * 1024);
  EXPECT_EQ(info.hugepages_total, 5u);
  EXPECT_EQ(info.hugepages_free, 3u);
  EXPECT_EQ(info.hugepage_bytes, 2u << 20);
  EXPECT_EQ(parse_meminfo("").available_bytes, 0u);
  EXPECT_EQ(parse_meminfo("MemAvailable:").available_bytes, 0u);
  EXPECT_EQ(parse_meminfo("HugePages_Free: 1\nHugePages_Rsvd: 2\n").hugepages_free, 0u);
}

TEST(Region, PlainIsMappedResidentAndWritable) {
  std::unique_ptr<Region> region;
  ASSERT_TRUE(Region::create(RegionKind::kPlain, 10000, &region).ok());
  EXPECT_EQ(region->kind(), RegionKind::kPlain);
  EXPECT_EQ(region->bytes(), 10000u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(region->base()) % 4096, 0u);
  unsigned char resident[3] = {};
  ASSERT_EQ(::mincore(region->base(), 12288, resident), 0);
  for (unsigned char page : resident) EXPECT_EQ(page & 1, 1);
  std::memset(region->base(), 1, region->bytes());
}

// Aligned for the kernel's large pages, and with no more of the address space than it says.
TEST(Region, LargePlainStartsOnALargePage) {
  for (const uint64_t bytes : {uint64_t{2} << 20, (uint64_t{4} << 20) + 5000}) {
    std::unique_ptr<Region> region;
    ASSERT_TRUE(Region::create(RegionKind::kPlain, bytes, &region).ok());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(region->base()) % (2u << 20), 0u);
    region->base()[bytes - 1] = std::byte{1};
    std::byte* const base = region->base();
    region.reset();
    EXPECT_NE(msync(base, 4096, MS_ASYNC), 0) << "still mapped";
  }
}

TEST(Region, BestAlwaysWorksAndTellsWhichItIs) {
  std::unique_ptr<Region> region;
  ASSERT_TRUE(Region::create(RegionKind::kBest, 4096, &region).ok());
  EXPECT_TRUE(region->kind() == RegionKind::kHuge || region->kind() == RegionKind::kPlain);
}

TEST(Region, HugeShortageNamesNeedStockAndRemedy) {
  std::unique_ptr<Region> region;
  const Status status = Region::create(RegionKind::kHuge, 1ull << 42, &region);
  EXPECT_EQ(status.code(), Code::kNoMemory);
  EXPECT_EQ(region, nullptr);
  EXPECT_NE(status.text().find("needs 2097152 hugepages of 2 MiB"), std::string::npos) << status.text();
  EXPECT_NE(status.text().find("are free: raise /proc/sys/vm/nr_hugepages by "), std::string::npos) << status.text();
}

TEST(Region, PlainShortageIsAnErrorBeforeItIsAKill) {
  std::unique_ptr<Region> region;
  const Status status = Region::create(RegionKind::kPlain, 1ull << 45, &region);
  EXPECT_EQ(status.code(), Code::kNoMemory);
  EXPECT_NE(status.text().find("bytes are available"), std::string::npos) << status.text();
}

TEST(Region, RefusesBadSizes) {
  std::unique_ptr<Region> region;
  EXPECT_EQ(Region::create(RegionKind::kPlain, 0, &region).code(), Code::kBadArgument);
  EXPECT_EQ(Region::create(RegionKind::kBest, UINT64_MAX, &region).code(), Code::kBadArgument);
  EXPECT_EQ(Region::create(RegionKind::kImported, 1, &region).code(), Code::kBadArgument);
  int word = 0;
  EXPECT_EQ(Region::import(nullptr, 4, &region).code(), Code::kBadArgument);
  EXPECT_EQ(Region::import(&word, 0, &region).code(), Code::kBadArgument);
  EXPECT_EQ(Region::import(&word, UINT64_MAX, &region).code(), Code::kBadArgument);
  EXPECT_EQ(region, nullptr);
}

TEST(Region, ImportedMemoryOutlivesItsRegion) {
  char around[192] = {};
  char* const memory = around + 64;
  std::strcpy(memory, "kept");
  std::unique_ptr<Region> region;
  ASSERT_TRUE(Region::import(memory, 64, &region).ok());
  EXPECT_EQ(region->kind(), RegionKind::kImported);
  EXPECT_TRUE(region->contains(memory, 64));
  EXPECT_TRUE(region->contains(memory + 64, 0));
  EXPECT_FALSE(region->contains(memory + 1, 64));
  EXPECT_FALSE(region->contains(memory + 1, UINT64_MAX));
  EXPECT_FALSE(region->contains(memory - 1, 1));
  region.reset();
  EXPECT_STREQ(memory, "kept");
}

TEST(Region, ChunksAreNoLargerThanADeviceTakes) {
  constexpr uint64_t kPage = 4096;
  std::unique_ptr<Region> region;
  ASSERT_TRUE(Region::create(RegionKind::kPlain, 100 * kPage + 7, &region).ok());
  EXPECT_EQ(region->page_bytes(), kPage);
  EXPECT_EQ(largest_chunk(*region, 0, 0), region->bytes());
  EXPECT_EQ(largest_chunk(*region, region->bytes(), 0), region->bytes());
  EXPECT_EQ(largest_chunk(*region, 10 * kPage + 5, 0), 10 * kPage);
  EXPECT_EQ(largest_chunk(*region, 1000, 0), 1000u);
  EXPECT_EQ(largest_chunk(*region, 50 * kPage, 20), 20 * kPage);
  EXPECT_EQ(largest_chunk(*region, 5 * kPage, 20), 5 * kPage);
  EXPECT_EQ(largest_chunk(*region, 0, 1'000'000), region->bytes());
  EXPECT_EQ(largest_chunk(*region, 0, UINT64_MAX), region->bytes());
  region->set_chunk_bytes(3 * kPage);
  EXPECT_EQ(largest_chunk(*region, 5 * kPage, 20), 3 * kPage);
  // One that begins inside a page touches one page more.
  std::unique_ptr<Region> inner;
  ASSERT_TRUE(Region::import(region->base() + 100, 50 * kPage, &inner).ok());
  EXPECT_EQ(largest_chunk(*inner, 0, 20), 19 * kPage);
}

TEST(Region, ThePageSizeIsTheKernelsWord) {
  const std::string smaps =
      "00010000-00020000 rw-p 00000000 00:00 0 \nSize: 64 kB\nKernelPageSize:        4 kB\n"
      "00200000-00600000 rw-p 00000000 00:0f 1 /dev/hugepages/x\xff\xfe\nKernelPageSize:     2048 kB\nfoo-bar\n"
      "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\nKernelPageSize: 64 kB\n";
  const auto page = [&](uint64_t addr, uint64_t bytes) {
    std::istringstream text(smaps);
    return parse_page_bytes(text, addr, bytes);
  };
  EXPECT_EQ(page(0x200000, 0x400000), 2u << 20);
  EXPECT_EQ(page(0x5fffff, 1), 2u << 20);
  EXPECT_EQ(page(0x1ffff, 0x200000), 4096u) << "the smaller of two";
  EXPECT_EQ(page(0x20000, 1), 0u);
  EXPECT_EQ(page(0xffffffffff600000, 0x1000), 65536u);
  std::istringstream nothing("KernelPageSize:\nKernelPageSize: x kB\n");
  EXPECT_EQ(parse_page_bytes(nothing, 0, 1), 0u);
  char here = 0;
  EXPECT_EQ(page_bytes_of(&here, 1), 4096u);
}

TEST(Region, KeysAreKeptPerDevice) {
  char memory[64];
  std::unique_ptr<Region> region;
  ASSERT_TRUE(Region::import(memory, sizeof memory, &region).ok());
  EXPECT_TRUE(std::as_const(*region).keys(3).empty());
  region->keys(3).push_back({0, 64, 1, 2, 0, nullptr});
  EXPECT_TRUE(std::as_const(*region).keys(2).empty());
  ASSERT_EQ(std::as_const(*region).keys(3).size(), 1u);
  EXPECT_EQ(std::as_const(*region).keys(3)[0].remote_key, 2u);
}

}  // namespace
}  // namespace sluice
