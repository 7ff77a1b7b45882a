/// @file discovery.h
/// The ports of this machine's RDMA devices that can carry paths.
///
/// Model    A device of this driver is one port; its name is the RDMA device's, with ":PORT" behind it for ports other
///          than the first. What is offered follows from node type, transport and link layer, never from a name.
/// Threads  Slow calls, one at a time.
/// Memory   Owns opened contexts through ContextPtr.
/// Errors   What is not offered is told with its reason.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gid.h"
#include "xport/driver.h"

namespace sluice::verbs {

struct CloseContext {
  void operator()(ibv_context* context) const noexcept { (void)ibv_close_device(context); }
};
using ContextPtr = std::unique_ptr<ibv_context, CloseContext>;

/// Why a port cannot carry our paths; empty when it can. Queue pairs of the reliable kind, connected by hand, exist on
/// InfiniBand and RoCE only.
std::string_view refusal_of(ibv_node_type node, ibv_transport_type transport, uint8_t link_layer) noexcept;

/// Bits per second of a port: @p speed and @p width as ibv_port_attr has them; 0 when unknown.
uint64_t port_rate(uint8_t speed, uint8_t width) noexcept;

/// "NAME" of port 1, else "NAME:PORT".
std::string port_name(std::string_view device, uint32_t port);
void parse_port_name(std::string_view name, std::string* device, uint32_t* port);

/// All usable ports that are up. @p why_not: a line of what there is besides, and why it is not usable.
std::vector<DeviceInfo> list_ports(std::string* why_not);

/// Open the RDMA device called @p name. @return kNotFound with those that there are.
Status open_context(const std::string& name, ContextPtr* out);

std::vector<GidEntry> read_gids(ibv_context* context, uint32_t port);
/// What can be known of @p port of @p context without holding it open.
DeviceInfo describe_port(ibv_context* context, uint32_t port, const ibv_port_attr& attr);

}  // namespace sluice::verbs
