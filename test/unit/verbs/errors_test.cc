// Every status that a completion can have, and what it is for the layers above.
#include "verbs/errors.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <map>

namespace sluice::verbs {
namespace {

TEST(Errors, EveryStatusHasItsCodeAndClass) {
  const std::map<ibv_wc_status, Code> known{
      {IBV_WC_SUCCESS, Code::kOk},
      {IBV_WC_LOC_LEN_ERR, Code::kBadArgument},
      {IBV_WC_LOC_QP_OP_ERR, Code::kDeviceError},
      {IBV_WC_LOC_EEC_OP_ERR, Code::kDeviceError},
      {IBV_WC_LOC_PROT_ERR, Code::kBadArgument},
      {IBV_WC_WR_FLUSH_ERR, Code::kCancelled},
      {IBV_WC_MW_BIND_ERR, Code::kDeviceError},
      {IBV_WC_BAD_RESP_ERR, Code::kDeviceError},
      {IBV_WC_LOC_ACCESS_ERR, Code::kBadArgument},
      {IBV_WC_REM_INV_REQ_ERR, Code::kBadArgument},
      {IBV_WC_REM_ACCESS_ERR, Code::kBadArgument},
      {IBV_WC_REM_OP_ERR, Code::kDeviceError},
      {IBV_WC_RETRY_EXC_ERR, Code::kPeerDead},
      {IBV_WC_RNR_RETRY_EXC_ERR, Code::kPeerDead},
      {IBV_WC_LOC_RDD_VIOL_ERR, Code::kDeviceError},
      {IBV_WC_REM_INV_RD_REQ_ERR, Code::kDeviceError},
      {IBV_WC_REM_ABORT_ERR, Code::kPeerDead},
      {IBV_WC_INV_EECN_ERR, Code::kDeviceError},
      {IBV_WC_INV_EEC_STATE_ERR, Code::kDeviceError},
      {IBV_WC_FATAL_ERR, Code::kDeviceError},
      {IBV_WC_RESP_TIMEOUT_ERR, Code::kPeerDead},
      {IBV_WC_GENERAL_ERR, Code::kDeviceError},
      {IBV_WC_TM_ERR, Code::kDeviceError},
      {IBV_WC_TM_RNDV_INCOMPLETE, Code::kDeviceError},
  };
  EXPECT_EQ(known.size(), static_cast<size_t>(IBV_WC_TM_RNDV_INCOMPLETE) + 1) << "a status without a row";
  for (const auto& [status, code] : known) {
    EXPECT_EQ(code_of_completion(status), code) << ibv_wc_status_str(status);
    EXPECT_NE(code_class(code), CodeClass::kBug) << ibv_wc_status_str(status);
  }
  EXPECT_EQ(code_class(code_of_completion(IBV_WC_RETRY_EXC_ERR)), CodeClass::kPeer);
  EXPECT_EQ(code_class(code_of_completion(IBV_WC_LOC_PROT_ERR)), CodeClass::kLocal);
}

TEST(Errors, CallsSayTheValueThatWasReturnedAndWhatHelps) {
  errno = ENOENT;
  const Status status = status_of("making a queue pair", "RDMA device x", ENOMEM);
  EXPECT_EQ(status.code(), Code::kNoMemory);
  EXPECT_NE(status.text().find("Cannot allocate memory"), std::string::npos) << status.text();
  EXPECT_NE(status.text().find("ulimit -l"), std::string::npos) << status.text();
  EXPECT_EQ(status_of("x", "y", 0).code(), Code::kOk);
  EXPECT_EQ(status_of("x", "y", EINVAL).code(), Code::kBadArgument);
  EXPECT_EQ(status_of("x", "y", ETIMEDOUT).code(), Code::kPeerDead);
  EXPECT_EQ(status_of("x", "y", 12345).code(), Code::kDeviceError);
}

}  // namespace
}  // namespace sluice::verbs
