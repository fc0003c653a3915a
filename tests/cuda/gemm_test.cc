// The harness's products on a GPU (gemm_scenario.cc), in a process of their own.
#include <catch2/catch.hpp>

#include "tests/cuda/scenario.h"

using namespace stepbench::gpu_test;

TEST_CASE("products of the harness on a GPU: formats, transpositions, batches, offsets, graphs") {
  const Outcome outcome = run_in_child({"gemm"}, 240);
  UNSCOPED_INFO(outcome.child.out);
  UNSCOPED_INFO(outcome.child.err);
  CHECK(outcome.get("error").empty());
  CHECK(outcome.get("checked") == "44");
  CHECK(outcome.get("wrong") == "0");
  CHECK(outcome.get("graph") == "3");
}
