# The commands of this project, each from a fresh clone. The build itself is CMake's (CMakePresets.json).
BUILD := build/release
JOBS  ?= $(shell nproc)
CXX_FILES = $(shell find harness tasks scoring tests -name '*.cc' -o -name '*.h')

.PHONY: help demo test gpu-test build program deps format format-check bench tidy sanitize clean
.DEFAULT_GOAL := help

help:  ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

deps:  ## install what is missing
	@cmake/install_dependencies.sh

build: deps  ## build everything, optimised, in build/release
	@cmake --preset release > /dev/null
	@cmake --build $(BUILD) -j $(JOBS)

program: deps  ## build the program alone, optimised, in build/release
	@cmake --preset release > /dev/null
	@cmake --build $(BUILD) --target stepbench -j $(JOBS)

demo: program  ## evaluate five shipped candidates and print the table
	@tests/demo.sh $(BUILD)/stepbench

test: build  ## build and run all tests
	@ctest --test-dir $(BUILD) --output-on-failure -j2

gpu-test: build  ## build and run the tests that need a GPU
	@tests/cuda/run_on_gpu.sh $(BUILD)

format:  ## format all C++ sources
	@clang-format -i $(CXX_FILES)

format-check:  ## fail when a source is not formatted
	@clang-format --dry-run -Werror $(CXX_FILES) && echo "format: ok"

bench: build  ## time the virtual machine and the parsers of this build
	@test -x $(BUILD)/stepbench_bench || { echo "no benchmark in tests/bench"; exit 1; }
	@$(BUILD)/stepbench_bench

tidy:  ## compile with clang-tidy
	@cmake --preset tidy > /dev/null && cmake --build --preset tidy -j $(JOBS)

sanitize:  ## build and test with address and undefined sanitizers, in build/dev
	@cmake --workflow --preset dev

clean:  ## remove all builds
	@rm -rf build
