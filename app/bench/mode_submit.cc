// The engine alone: two nodes of this process over loop, turned with the generator by one thread.
#include <atomic>
#include <thread>

#include "measure.h"
#include "modes.h"
#include "target.h"

namespace sluice::bench {
Status run_submit(const Setup& setup, Report* report) {
  if (setup.options.threads != 0)
    return {Code::kBadArgument, "threads = " + std::to_string(setup.options.threads) +
                                    ": mode submit turns all by one thread; leave it out"};
  Setup alone = setup;
  alone.node.transport = "loop_twosided";
  alone.node.listen = "127.0.0.1:0";
  alone.node.name = "target";
  RunOptions run;
  run.eal_args = setup.eal_args;
  run.own_lcores = false;
  Target target;
  run.extra_agents.push_back(&target);
  std::unique_ptr<Engine> other;
  if (Status s = Engine::start(alone.node, run, &other); !s.ok()) return s;
  if (Status s = target.open(other.get(), setup.options.segment_bytes); !s.ok()) return s;
  alone.target = other->transport().listen_address;
  alone.node.name = "source";
  alone.turn = [&other, &target] {
    (void)other->progress();
    target.serve();
  };

  std::vector<std::unique_ptr<Generator>> generators;
  generators.push_back(std::make_unique<TransferGenerator>());
  Status status;
  {
    Source source(alone, generators);
    if (status = source.start(); !status.ok()) return status;
    std::atomic<bool> connected{false};  // connect() turns its own node only
    std::thread turner([&] {
      while (!connected.load()) (void)other->progress();
    });
    status = source.connect();
    connected = true;
    turner.join();
    if (status.ok())
      status =
          measure_transfers("submit", alone, source, generators, {setup.options.batch, setup.options.depth}, report);
    connected = false;
    turner = std::thread([&] {
      while (!connected.load()) (void)other->progress();
    });
    source.stop();
    connected = true;
    turner.join();
  }
  (void)other->stop(0).ok();
  return status;
}

}  // namespace sluice::bench
