#include "meta/directory.h"

namespace sluice {

Status P2pDirectory::lookup(std::string_view name, Address* out) {
  return parse_address(name, AddressUse::kConnect, default_port_, out);
}

}  // namespace sluice
