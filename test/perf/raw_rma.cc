// raw_rma: the raw libfabric loop of one-sided operations that ours is measured against. Two processes on two cores:
// one writes to or reads from memory of the other, which only polls. `depth` operations in flight, each at a place of
// its own, nothing but libfabric calls in the loop.
//
// A write ends when its bytes are at the target (--complete delivery), since that is what ours promises; --complete
// transmit leaves the word to the provider. Prints one JSON line.
#include <getopt.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

struct Args {
  std::string provider = "tcp;ofi_rxm";
  std::string device;
  std::string op = "write";           // write, read
  std::string complete = "delivery";  // delivery, transmit
  size_t size = 65536;
  uint32_t depth = 64;
  double seconds = 1;
};

constexpr size_t kBlobMax = 256;

/// What the two processes share: addresses, the target's key, the end.
struct Shared {
  struct Side {
    std::byte blob[kBlobMax];
    size_t blob_bytes;
    uint64_t key, addr;
    std::atomic<uint32_t> ready;
  };
  Side side[2];
  alignas(64) std::atomic<uint32_t> stop;
};

[[noreturn]] void die(const char* what, int64_t ret) {
  std::fprintf(stderr, "raw_rma: %s: %s (%lld)\n", what, ret < 0 ? fi_strerror(static_cast<int>(-ret)) : "",
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
    std::fprintf(stderr, "raw_rma: cannot pin to core %d; going on unpinned\n", cpu);
}

class End {
 public:
  End(const Args& args, Shared& shared, int me) : args_(args), contexts_(args.depth) {
    open();
    reg();
    exchange(shared, me);
  }
  /// Endpoints of shm are files that go with their endpoint only; others are left to the process's end, as
  /// tcp;ofi_rxm (1.17) crashes when it is closed with operations under way.
  ~End() {
    if (args_.provider == "shm") fi_close(&ep_->fid);
  }
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  /// Post operation @p i; false: again.
  bool post(uint32_t i) {
    const uint64_t at = uint64_t{i} * args_.size;
    const iovec local{memory_ + at, args_.size};
    const fi_rma_iov remote{remote_addr_ + at, args_.size, remote_key_};
    void* desc = fi_mr_desc(mr_);
    const fi_msg_rma message{&local, &desc, 1, peer_, &remote, 1, &contexts_[i], 0};
    const int64_t ret = read_ ? fi_readmsg(ep_, &message, FI_COMPLETION) : fi_writemsg(ep_, &message, flags_);
    if (ret == -FI_EAGAIN) return false;
    must("post", ret);
    return true;
  }
  /// Poll once: on_done(i) for what ended.
  template <typename OnDone>
  void poll(OnDone on_done) {
    fi_cq_msg_entry entries[32];
    const int64_t got = fi_cq_read(cq_, entries, 32);
    if (got == -FI_EAGAIN) return;
    if (got < 0) {
      fi_cq_err_entry error{};
      fi_cq_readerr(cq_, &error, 0);
      die("completion", -std::abs(error.err));
    }
    for (int64_t i = 0; i < got; ++i)
      on_done(static_cast<uint32_t>(static_cast<fi_context2*>(entries[i].op_context) - contexts_.data()));
  }

 private:
  void open() {
    fi_info* hints = fi_allocinfo();
    hints->caps = FI_MSG | FI_RMA;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->fabric_attr->prov_name = strdup(args_.provider.c_str());
    if (!args_.device.empty()) hints->domain_attr->name = strdup(args_.device.c_str());
    fi_info* list = nullptr;
    must("fi_getinfo", fi_getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), nullptr, nullptr, 0, hints, &list));
    fi_freeinfo(hints);
    info_ = list;
    while (info_ != nullptr && args_.provider != info_->fabric_attr->prov_name) info_ = info_->next;
    if (info_ == nullptr) die("no such provider", 0);
    fid_fabric* fabric = nullptr;
    must("fi_fabric", fi_fabric(info_->fabric_attr, &fabric, nullptr));
    must("fi_domain", fi_domain(fabric, info_, &domain_, nullptr));
    fi_cq_attr cq_attr{};
    cq_attr.size = 2ULL * args_.depth + 64;
    cq_attr.format = FI_CQ_FORMAT_MSG;
    must("fi_cq_open", fi_cq_open(domain_, &cq_attr, &cq_, nullptr));
    fi_av_attr av_attr{};
    av_attr.type = FI_AV_TABLE;
    must("fi_av_open", fi_av_open(domain_, &av_attr, &av_, nullptr));
    must("fi_endpoint", fi_endpoint(domain_, info_, &ep_, nullptr));
    must("bind", fi_ep_bind(ep_, &av_->fid, 0));
    must("bind", fi_ep_bind(ep_, &cq_->fid, FI_TRANSMIT | FI_RECV));
    must("fi_enable", fi_enable(ep_));
    read_ = args_.op == "read";
    flags_ = FI_COMPLETION | (args_.complete == "delivery" ? FI_DELIVERY_COMPLETE : 0);
  }
  void reg() {
    constexpr size_t kLarge = 2U << 20;  // pages of the same kind as ours, where the kernel has them
    const size_t bytes = (args_.size * args_.depth + kLarge - 1) / kLarge * kLarge;
    memory_ = static_cast<std::byte*>(std::aligned_alloc(kLarge, bytes));
    (void)madvise(memory_, bytes, MADV_HUGEPAGE);
    std::memset(memory_, 1, bytes);
    constexpr uint64_t kAccess = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    must("fi_mr_reg", fi_mr_reg(domain_, memory_, bytes, kAccess, 0, 4711, 0, &mr_, nullptr));
  }
  void exchange(Shared& shared, int me) {
    Shared::Side& mine = shared.side[me];
    Shared::Side& other = shared.side[1 - me];
    mine.blob_bytes = kBlobMax;
    must("fi_getname", fi_getname(&ep_->fid, mine.blob, &mine.blob_bytes));
    mine.key = fi_mr_key(mr_);
    const bool addresses = (info_->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
    mine.addr = addresses ? reinterpret_cast<uintptr_t>(memory_) : 0;
    mine.ready.store(1);
    while (other.ready.load() == 0) fi_cq_read(cq_, nullptr, 0);
    if (fi_av_insert(av_, other.blob, 1, &peer_, 0, nullptr) != 1) die("fi_av_insert", 0);
    remote_key_ = other.key;
    remote_addr_ = other.addr;
  }

  const Args& args_;
  fi_info* info_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_cq* cq_ = nullptr;
  fid_av* av_ = nullptr;
  fid_ep* ep_ = nullptr;
  fid_mr* mr_ = nullptr;
  std::byte* memory_ = nullptr;
  fi_addr_t peer_ = 0;
  uint64_t remote_key_ = 0, remote_addr_ = 0, flags_ = 0;
  bool read_ = false;
  std::vector<fi_context2> contexts_;
};

/// @return seconds, with the operations that ended in them.
double load(const Args& args, End& end, uint64_t* operations) {
  std::vector<uint32_t> home;  // last in, first out
  for (uint32_t i = args.depth; i-- > 0;) home.push_back(i);
  uint64_t done = 0;
  uint64_t first = 0;
  double from = 0;
  const double begin = now_s();
  for (uint32_t turn = 0;; ++turn) {
    while (!home.empty() && end.post(home.back())) home.pop_back();
    end.poll([&](uint32_t i) {
      home.push_back(i);
      ++done;
    });
    if (turn % 64 != 0) continue;
    const double at = now_s();
    if (from == 0 && done != 0 && at - begin > 0.2) {  // connected and warm
      from = at;
      first = done;
    }
    if (from != 0 && at - from >= args.seconds) {
      *operations = done - first;
      return at - from;
    }
    if (from == 0 && at - begin > 5) die("nothing ended in 5 s", 0);
  }
}

void run(const Args& args, Shared& shared, int me) {
  End end(args, shared, me);
  if (me == 1) {
    while (shared.stop.load(std::memory_order_relaxed) == 0) end.poll([](uint32_t) {});
    return;
  }
  uint64_t operations = 0;
  const double seconds = load(args, end, &operations);
  shared.stop.store(1);
  const double count = static_cast<double>(operations);
  std::printf(
      "{\"mode\":\"rma\",\"provider\":\"%s\",\"op\":\"%s\",\"complete\":\"%s\",\"size\":%zu,\"depth\":%u,"
      "\"seconds\":%.3f,\"ops\":%llu,\"mops\":%.4f,\"gb_per_s\":%.4f}\n",
      args.provider.c_str(), args.op.c_str(), args.complete.c_str(), args.size, args.depth, seconds,
      static_cast<unsigned long long>(operations), count / seconds / 1e6,
      count * static_cast<double>(args.size) / seconds / 1e9);
}

int usage() {
  std::fprintf(stderr,
               "usage: raw_rma [--provider P] [--device D] [--op write|read] [--complete delivery|transmit]\n"
               "         [--size BYTES] [--depth N] [--seconds S]\n");
  return 2;
}

bool parse(int argc, char** argv, Args* args) {
  const option options[] = {{"provider", 1, nullptr, 'p'}, {"device", 1, nullptr, 'd'}, {"op", 1, nullptr, 'o'},
                            {"complete", 1, nullptr, 'c'}, {"size", 1, nullptr, 's'},   {"depth", 1, nullptr, 'n'},
                            {"seconds", 1, nullptr, 't'},  {nullptr, 0, nullptr, 0}};
  for (int c; (c = getopt_long(argc, argv, "", options, nullptr)) != -1;) {
    switch (c) {
      case 'p': args->provider = optarg; break;
      case 'd': args->device = optarg; break;
      case 'o': args->op = optarg; break;
      case 'c': args->complete = optarg; break;
      case 's': args->size = std::strtoull(optarg, nullptr, 0); break;
      case 'n': args->depth = static_cast<uint32_t>(std::strtoul(optarg, nullptr, 0)); break;
      case 't': args->seconds = std::strtod(optarg, nullptr); break;
      default: return false;
    }
  }
  return optind == argc && args->size > 0 && args->depth > 0 && args->seconds > 0;
}

}  // namespace

int main(int argc, char** argv) {
  Args args;
  if (!parse(argc, argv, &args)) return usage();
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
}
