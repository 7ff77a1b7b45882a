/// @file directory.h
/// From a node's name to the address of its out-of-band listener.
///
/// Model    An interface, so that stores can stand behind it. P2pDirectory needs none: the name is the address.
/// Threads  lookup() may block in a store; it is called on the thread that wants the answer.
/// Memory   Allocates.
/// Errors   Each text names the name.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "meta/address.h"

namespace sluice {

class Directory {
 public:
  virtual ~Directory() = default;
  /// @return kNotFound, kBadArgument (a name that this directory cannot have).
  virtual Status lookup(std::string_view name, Address* out) = 0;
};

/// A name is `host:port`, or `host` when there is a default port.
class P2pDirectory final : public Directory {
 public:
  explicit P2pDirectory(uint16_t default_port = 0) noexcept : default_port_(default_port) {}
  Status lookup(std::string_view name, Address* out) override;

 private:
  uint16_t default_port_;
};

}  // namespace sluice
