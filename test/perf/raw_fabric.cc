// raw_fabric: the raw libfabric peer that ours is measured against. Two processes on two cores, one direction,
// busy polling, nothing but libfabric calls in the loop.
//
// The receiver keeps `depth` receives posted and returns a credit message after each depth / 2, so that no message is
// ever unexpected: what any program has to do that does not lose messages. --flow provider leaves it to the provider.
// --copy and --header measure what a protocol with bounce slots adds: a header in front, a copy at either side between
// a hot slot and application memory. Prints one JSON line.
#include <getopt.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Args {
  std::string provider = "tcp;ofi_rxm";
  std::string device;
  std::string mode = "stream";   // stream, pingpong, line
  std::string flow = "credit";   // credit, provider
  std::string copy = "none";     // none, tx, rx, both
  std::string threads = "safe";  // safe, domain
  size_t size = 65536;
  size_t header = 0;
  uint32_t depth = 64;
  uint32_t iov = 1;
  double seconds = 1;
  size_t app_bytes = 64ULL << 20;
};

constexpr size_t kBlobMax = 256;
constexpr size_t kCreditBytes = 8;

/// What the two processes share: the exchange of addresses, the receiver's count, the end.
struct Shared {
  struct Side {
    std::byte blob[kBlobMax];
    size_t blob_bytes;
    std::atomic<uint32_t> ready;
  };
  Side side[2];
  alignas(64) std::atomic<uint64_t> received;
  alignas(64) std::atomic<uint32_t> stop;
};

[[noreturn]] void die(const char* what, int64_t ret) {
  std::fprintf(stderr, "raw_fabric: %s: %s (%lld)\n", what, ret < 0 ? fi_strerror(static_cast<int>(-ret)) : "",
               static_cast<long long>(ret));
  std::fflush(stderr);
  _exit(1);
}
void must(const char* what, int64_t ret) {
  if (ret < 0) die(what, ret);
}

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0)
    std::fprintf(stderr, "raw_fabric: cannot pin to core %d; going on unpinned\n", cpu);
}

/// One endpoint with depth distinct buffers each way.
class End {
 public:
  End(const Args& args, Shared& shared, int me) : args_(args), message_(args.size + args.header) {
    open();
    exchange(shared, me);
    const size_t stride = (std::max(message_, kCreditBytes) + 127) / 64 * 64;
    tx_ = buffers(stride);
    rx_ = buffers(stride);
    contexts_.resize(2ULL * args.depth);
    if (args.copy != "none" || args.iov == 2) app_.assign(std::max(args.app_bytes, 2 * args.size), std::byte{1});
  }

  /// Endpoints of shm are files that go with their endpoint only. Others are left to the process's end: tcp;ofi_rxm
  /// (1.17) crashes when it is closed with messages under way, as they are when the time is up.
  ~End() {
    if (args_.provider == "shm") fi_close(&ep_->fid);
  }
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  size_t message() const { return message_; }
  std::byte* rx(uint32_t i) { return rx_[i]; }
  std::byte* tx(uint32_t i) { return tx_[i]; }
  uint32_t depth() const { return args_.depth; }

  /// The next block of application memory, walking all of it.
  std::byte* app_block() {
    if (app_at_ + args_.size > app_.size()) app_at_ = 0;
    std::byte* at = app_.data() + app_at_;
    app_at_ += args_.size;
    return at;
  }
  void copy_out(uint32_t slot) {
    if (copy_tx_) std::memcpy(tx_[slot] + args_.header, app_block(), args_.size);
  }
  void copy_in(uint32_t slot) {
    if (copy_rx_) std::memcpy(app_block(), rx_[slot] + args_.header, args_.size);
  }

  /// Post slot @p i of @p bytes; false: again.
  bool send(uint32_t i, size_t bytes) {
    int64_t ret;
    if (args_.iov == 2 && bytes == message_ && args_.header != 0) {
      std::byte* payload = copy_tx_ ? tx_[i] + args_.header : app_block();
      const iovec pieces[2] = {{tx_[i], args_.header}, {payload, args_.size}};
      ret = fi_sendv(ep_, pieces, nullptr, 2, peer_, &contexts_[i]);
    } else {
      ret = fi_send(ep_, tx_[i], bytes, nullptr, peer_, &contexts_[i]);
    }
    if (ret == -FI_EAGAIN) return false;
    must("fi_send", ret);
    return true;
  }
  void recv(uint32_t i) {
    int64_t ret;
    do {
      ret = fi_recv(ep_, rx_[i], std::max(message_, kCreditBytes), nullptr, FI_ADDR_UNSPEC, &contexts_[depth() + i]);
      if (ret == -FI_EAGAIN) fi_cq_read(cq_, nullptr, 0);
    } while (ret == -FI_EAGAIN);
    must("fi_recv", ret);
  }
  /// Poll once: on_send(slot) and on_recv(slot, bytes) for what ended.
  template <typename OnSend, typename OnRecv>
  void poll(OnSend on_send, OnRecv on_recv) {
    fi_cq_msg_entry entries[32];
    const int64_t got = fi_cq_read(cq_, entries, 32);
    if (got == -FI_EAGAIN) return;
    if (got < 0) {
      fi_cq_err_entry error{};
      fi_cq_readerr(cq_, &error, 0);
      die("completion", -std::abs(error.err));
    }
    for (int64_t i = 0; i < got; ++i) {
      const auto index = static_cast<uint32_t>(static_cast<fi_context2*>(entries[i].op_context) - contexts_.data());
      if (index < depth()) {
        on_send(index);
      } else {
        on_recv(index - depth(), entries[i].len);
      }
    }
  }

 private:
  void open() {
    fi_info* hints = fi_allocinfo();
    hints->caps = FI_MSG;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->threading = args_.threads == "domain" ? FI_THREAD_DOMAIN : FI_THREAD_SAFE;
    hints->fabric_attr->prov_name = strdup(args_.provider.c_str());
    if (!args_.device.empty()) hints->domain_attr->name = strdup(args_.device.c_str());
    fi_info* list = nullptr;
    must("fi_getinfo", fi_getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), nullptr, nullptr, 0, hints, &list));
    fi_freeinfo(hints);
    fi_info* info = list;
    while (info != nullptr && args_.provider != info->fabric_attr->prov_name) info = info->next;
    if (info == nullptr) die("no such provider", 0);
    fid_fabric* fabric = nullptr;
    fid_domain* domain = nullptr;
    must("fi_fabric", fi_fabric(info->fabric_attr, &fabric, nullptr));
    must("fi_domain", fi_domain(fabric, info, &domain, nullptr));
    fi_cq_attr cq_attr{};
    cq_attr.size = 4ULL * args_.depth + 64;
    cq_attr.format = FI_CQ_FORMAT_MSG;
    must("fi_cq_open", fi_cq_open(domain, &cq_attr, &cq_, nullptr));
    fi_av_attr av_attr{};
    av_attr.type = FI_AV_TABLE;
    must("fi_av_open", fi_av_open(domain, &av_attr, &av_, nullptr));
    must("fi_endpoint", fi_endpoint(domain, info, &ep_, nullptr));
    must("bind", fi_ep_bind(ep_, &av_->fid, 0));
    must("bind", fi_ep_bind(ep_, &cq_->fid, FI_TRANSMIT | FI_RECV));
    must("fi_enable", fi_enable(ep_));
  }
  void exchange(Shared& shared, int me) {
    Shared::Side& mine = shared.side[me];
    Shared::Side& other = shared.side[1 - me];
    mine.blob_bytes = kBlobMax;
    must("fi_getname", fi_getname(&ep_->fid, mine.blob, &mine.blob_bytes));
    mine.ready.store(1);
    while (other.ready.load() == 0) fi_cq_read(cq_, nullptr, 0);
    if (fi_av_insert(av_, other.blob, 1, &peer_, 0, nullptr) != 1) die("fi_av_insert", 0);
  }
  std::vector<std::byte*> buffers(size_t stride) const {
    constexpr size_t kLarge = 2U << 20;  // pages of the same kind as ours, where the kernel has them
    const size_t bytes = (stride * args_.depth + kLarge - 1) / kLarge * kLarge;
    auto* base = static_cast<std::byte*>(std::aligned_alloc(kLarge, bytes));
    (void)madvise(base, bytes, MADV_HUGEPAGE);
    std::memset(base, 1, stride * args_.depth);
    std::vector<std::byte*> out;
    for (uint32_t i = 0; i < args_.depth; ++i) out.push_back(base + i * stride);
    return out;
  }

  const Args& args_;
  const size_t message_;
  const bool copy_tx_ = args_.copy == "tx" || args_.copy == "both";
  const bool copy_rx_ = args_.copy == "rx" || args_.copy == "both";
  fid_cq* cq_ = nullptr;
  fid_av* av_ = nullptr;
  fid_ep* ep_ = nullptr;
  fi_addr_t peer_ = 0;
  std::vector<std::byte*> tx_, rx_;
  std::vector<fi_context2> contexts_;
  std::vector<std::byte> app_;
  size_t app_at_ = 0;
};

void receive_stream(const Args& args, End& end, Shared& shared) {
  for (uint32_t i = 0; i < end.depth(); ++i) end.recv(i);
  shared.side[1].ready.store(2);
  const uint32_t step = std::max(1U, end.depth() / 2);
  const bool credit = args.flow == "credit";
  uint64_t received = 0;
  uint64_t told = 0;
  uint32_t sending = 0;  // credit messages on their way, in slots 0 and up
  while (shared.stop.load(std::memory_order_relaxed) == 0) {
    end.poll([&](uint32_t) { --sending; },
             [&](uint32_t slot, size_t) {
               end.copy_in(slot);
               end.recv(slot);
               ++received;
             });
    shared.received.store(received, std::memory_order_relaxed);
    if (credit && received - told >= step && sending == 0) {
      std::memcpy(end.tx(0), &received, sizeof received);
      if (end.send(0, kCreditBytes)) {
        told = received;
        ++sending;
      }
    }
  }
}

double send_stream(const Args& args, End& end, Shared& shared, uint64_t* messages) {
  for (uint32_t i = 0; i < std::min(4U, end.depth()); ++i) end.recv(i);
  while (shared.side[1].ready.load() != 2) end.poll([](uint32_t) {}, [](uint32_t, size_t) {});
  std::vector<uint32_t> home;  // last in, first out: the slots in use stay in the cache
  for (uint32_t i = end.depth(); i-- > 0;) home.push_back(i);
  uint64_t sent = 0;
  uint64_t limit = args.flow == "credit" ? end.depth() : UINT64_MAX;
  uint64_t first = 0;
  const double begin = now_s();
  double from = 0;
  bool copied = false;  // the slot on top is filled and was refused
  for (uint32_t turn = 0;; ++turn) {
    while (!home.empty() && sent < limit) {
      const uint32_t slot = home.back();
      if (!copied) end.copy_out(slot);
      copied = true;
      if (!end.send(slot, end.message())) break;
      copied = false;
      home.pop_back();
      ++sent;
    }
    end.poll([&](uint32_t slot) { home.insert(copied ? home.end() - 1 : home.end(), slot); },
             [&](uint32_t slot, size_t) {
               uint64_t seen;
               std::memcpy(&seen, end.rx(slot), sizeof seen);
               limit = std::max(limit, seen + end.depth());
               end.recv(slot);
             });
    if (turn % 64 != 0) continue;
    const double at = now_s();
    if (from == 0 && at - begin > 0.2) {  // connected and warm
      from = at;
      first = shared.received.load();
    }
    if (from != 0 && at - from >= args.seconds) {
      *messages = shared.received.load() - first;
      shared.stop.store(1);
      return at - from;
    }
    if (from == 0 && at - begin > 5) die("nothing arrived in 5 s", 0);
  }
}

/// Message to and fro; side 0 begins. Counts round trips.
double pingpong(const Args& args, End& end, Shared& shared, int me, uint64_t* messages) {
  for (uint32_t i = 0; i < end.depth(); ++i) end.recv(i);
  shared.side[me].ready.store(2);
  while (shared.side[1 - me].ready.load() != 2) end.poll([](uint32_t) {}, [](uint32_t, size_t) {});
  uint64_t rounds = 0;
  uint32_t slot = 0;
  bool mine = me == 0;
  const double begin = now_s();
  while (shared.stop.load(std::memory_order_relaxed) == 0) {
    if (mine && end.send(slot, end.message())) {
      slot = (slot + 1) % end.depth();
      mine = false;
    }
    end.poll([](uint32_t) {},
             [&](uint32_t got, size_t) {
               end.recv(got);
               mine = true;
               ++rounds;
             });
    if (me == 0 && rounds % 16 == 0 && now_s() - begin >= args.seconds) break;
  }
  *messages = rounds;
  shared.stop.store(1);
  return now_s() - begin;
}

/// The round trip of one cache line between the two cores, in ns.
double cache_line_ns() {
  struct alignas(64) Line {
    std::atomic<uint64_t> value{0};
  };
  static Line there;
  static Line back;
  constexpr uint64_t kRounds = 200000;
  std::thread other([] {
    pin(1);
    for (uint64_t i = 1; i <= kRounds; ++i) {
      while (there.value.load(std::memory_order_acquire) != i) continue;
      back.value.store(i, std::memory_order_release);
    }
  });
  pin(0);
  const double begin = now_s();
  for (uint64_t i = 1; i <= kRounds; ++i) {
    there.value.store(i, std::memory_order_release);
    while (back.value.load(std::memory_order_acquire) != i) continue;
  }
  const double took = now_s() - begin;
  other.join();
  return took / kRounds * 1e9;
}

int usage() {
  std::fprintf(stderr,
               "usage: raw_fabric [--provider P] [--device D] [--mode stream|pingpong|line] [--size BYTES]\n"
               "         [--depth N] [--seconds S] [--flow credit|provider] [--header BYTES] [--iov 1|2]\n"
               "         [--copy none|tx|rx|both] [--app-bytes N] [--threads safe|domain]\n");
  return 2;
}

bool parse(int argc, char** argv, Args* args) {
  const option options[] = {{"provider", 1, nullptr, 'p'}, {"device", 1, nullptr, 'd'},    {"mode", 1, nullptr, 'm'},
                            {"size", 1, nullptr, 's'},     {"depth", 1, nullptr, 'n'},     {"seconds", 1, nullptr, 't'},
                            {"flow", 1, nullptr, 'f'},     {"header", 1, nullptr, 'h'},    {"iov", 1, nullptr, 'i'},
                            {"copy", 1, nullptr, 'c'},     {"app-bytes", 1, nullptr, 'a'}, {"threads", 1, nullptr, 'T'},
                            {nullptr, 0, nullptr, 0}};
  for (int c; (c = getopt_long(argc, argv, "", options, nullptr)) != -1;) {
    switch (c) {
      case 'p': args->provider = optarg; break;
      case 'd': args->device = optarg; break;
      case 'm': args->mode = optarg; break;
      case 'f': args->flow = optarg; break;
      case 'c': args->copy = optarg; break;
      case 'T': args->threads = optarg; break;
      case 's': args->size = std::strtoull(optarg, nullptr, 0); break;
      case 'h': args->header = std::strtoull(optarg, nullptr, 0); break;
      case 'a': args->app_bytes = std::strtoull(optarg, nullptr, 0); break;
      case 'n': args->depth = static_cast<uint32_t>(std::strtoul(optarg, nullptr, 0)); break;
      case 'i': args->iov = static_cast<uint32_t>(std::strtoul(optarg, nullptr, 0)); break;
      case 't': args->seconds = std::strtod(optarg, nullptr); break;
      default: return false;
    }
  }
  return optind == argc && args->size > 0 && args->depth > 0 && args->seconds > 0;
}

void run(const Args& args, Shared& shared, int me) {
  End end(args, shared, me);
  const bool rounds = args.mode == "pingpong";
  uint64_t messages = 0;
  if (me == 1 && !rounds) return receive_stream(args, end, shared);
  const double seconds =
      rounds ? pingpong(args, end, shared, me, &messages) : send_stream(args, end, shared, &messages);
  if (me == 1) return;
  const double count = static_cast<double>(messages);
  std::printf(
      "{\"mode\":\"%s\",\"provider\":\"%s\",\"size\":%zu,\"depth\":%u,\"header\":%zu,\"iov\":%u,\"copy\":\"%s\","
      "\"seconds\":%.3f,\"msgs\":%llu,\"mmsg_per_s\":%.4f,\"gb_per_s\":%.4f,\"half_round_trip_us\":%.3f}\n",
      args.mode.c_str(), args.provider.c_str(), args.size, args.depth, args.header, args.iov, args.copy.c_str(),
      seconds, static_cast<unsigned long long>(messages), count / seconds / 1e6,
      count * static_cast<double>(args.size) / seconds / 1e9, rounds ? seconds / count / 2 * 1e6 : 0.0);
}

}  // namespace

int main(int argc, char** argv) {
  Args args;
  if (!parse(argc, argv, &args)) return usage();
  if (args.mode == "line") {
    std::printf("{\"mode\":\"line\",\"cache_line_round_trip_ns\":%.0f}\n", cache_line_ns());
    return 0;
  }
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) die("mmap", -errno);
  auto* shared = new (memory) Shared{};
  const pid_t child = fork();
  if (child < 0) die("fork", -errno);
  pin(child == 0 ? 1 : 0);
  run(args, *shared, child == 0 ? 1 : 0);
  std::fflush(stdout);
  if (child != 0) waitpid(child, nullptr, 0);
  _exit(0);  // the providers' exit handlers are not what is measured
  _exit(0);
}
