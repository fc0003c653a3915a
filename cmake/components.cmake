# The parts of the program, one static library each, in the order of an evaluation. Sources are listed by glob per
# part, so that adding a file to a part needs no edit here.

# sb_component(name SOURCES ... LINK ...)
function(sb_component name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC sb_flags ${ARG_LINK})
endfunction()

set(H ${CMAKE_SOURCE_DIR}/harness)

if(STEPBENCH_FUZZ)  # coverage feedback needs all parts instrumented; main comes with the fuzz targets only
  target_compile_options(sb_flags INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(sb_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# Loops that are compiled once per instruction-set level, the best of which is chosen at run time. Optimised in every
# build type. Sanitizers see the first level only, whose source is that of the others and which the tests call as well:
# with them AVX-512 takes minutes to compile.
add_library(sb_unsanitized INTERFACE)
target_compile_options(sb_unsanitized INTERFACE $<$<BOOL:${STEPBENCH_SANITIZE}>:-fno-sanitize=all>)
set(isa_base -march=x86-64-v2)
set(isa_avx2 ${isa_base} -mavx2 -mfma)
set(isa_avx512 ${isa_avx2} -mavx512f -mavx512bw -mavx512cd -mavx512dq -mavx512vl)
# sb_level(name source level): object library `name`_`level`
function(sb_level name source level)
  add_library(${name}_${level} OBJECT ${source})
  target_link_libraries(${name}_${level} PRIVATE sb_flags)
  if(NOT level STREQUAL base)
    target_link_libraries(${name}_${level} PRIVATE sb_unsanitized)  # after sb_flags: the last word counts
  endif()
  target_compile_definitions(${name}_${level} PRIVATE SB_ISA=isa_${level} SB_ISA_NAME="${level}")
  target_compile_options(${name}_${level} PRIVATE ${isa_${level}} -O3)
endfunction()

# words, errors, hashes, loops over values
foreach(level base avx2 avx512)
  sb_level(sb_value_loops ${H}/value_loops_level.cc ${level})
  target_compile_options(sb_value_loops_${level} PRIVATE -fno-math-errno -fno-trapping-math)
endforeach()
sb_component(sb_base
  SOURCES ${H}/result.cc ${H}/words.cc ${H}/shell_word.cc ${H}/hash.cc ${H}/child_process.cc ${H}/generate.cc ${H}/parallel.cc
          ${CMAKE_SOURCE_DIR}/tasks/spread.cc
          ${H}/value_loops.cc $<TARGET_OBJECTS:sb_value_loops_base> $<TARGET_OBJECTS:sb_value_loops_avx2>
          $<TARGET_OBJECTS:sb_value_loops_avx512>
  LINK OpenSSL::Crypto)

# PTX text -> syntax tree, admission
sb_component(sb_ptx
  SOURCES ${H}/ptx_vm/lex.cc ${H}/ptx_vm/parse.cc ${H}/ptx_vm/parse_variable.cc ${H}/ptx_vm/parse_body.cc
          ${H}/ptx_vm/parse_operand.cc ${H}/ptx_vm/kernel_info.cc ${H}/address_flow.cc ${H}/admission.cc
  LINK sb_base fmt::fmt)

# Lane-wise arithmetic, once per instruction-set level. -O3 in every build type: the handlers are the VM's speed.
foreach(level v2 v3)
  add_library(sb_arithmetic_${level} OBJECT)
  file(GLOB arithmetic_sources CONFIGURE_DEPENDS ${H}/ptx_vm/arithmetic_*.cc)
  target_sources(sb_arithmetic_${level} PRIVATE ${arithmetic_sources})
  target_link_libraries(sb_arithmetic_${level} PRIVATE sb_flags)
  target_compile_definitions(sb_arithmetic_${level} PRIVATE SB_ISA=isa_${level})
  target_compile_options(sb_arithmetic_${level} PRIVATE -march=x86-64-${level} -O3 -fno-math-errno -fno-trapping-math)
endforeach()
sb_component(sb_arithmetic
  SOURCES ${H}/ptx_vm/arithmetic.cc $<TARGET_OBJECTS:sb_arithmetic_v2> $<TARGET_OBJECTS:sb_arithmetic_v3> LINK sb_base)

# The VM: memory operations per instruction-set level as above, the rest once.
foreach(level v2 v3)
  add_library(sb_memory_ops_${level} OBJECT)
  file(GLOB memory_sources CONFIGURE_DEPENDS ${H}/ptx_vm/memory_ops*.cc)
  target_sources(sb_memory_ops_${level} PRIVATE ${memory_sources})
  target_link_libraries(sb_memory_ops_${level} PRIVATE sb_flags)
  target_compile_definitions(sb_memory_ops_${level} PRIVATE SB_ISA=isa_${level})
  target_compile_options(sb_memory_ops_${level} PRIVATE -march=x86-64-${level} -O3 -fno-math-errno -fno-trapping-math)
endforeach()
# NVIDIA GPUs through the driver's library, opened at run time: neither headers nor a link are needed.
file(GLOB cuda_sources CONFIGURE_DEPENDS ${H}/cuda/*.cc)
sb_component(sb_cuda SOURCES ${cuda_sources} LINK sb_compile sb_ptx fmt::fmt ${CMAKE_DL_LIBS})

file(GLOB vm_sources CONFIGURE_DEPENDS ${H}/ptx_vm/*.cc)
list(FILTER vm_sources EXCLUDE REGEX "/(lex|parse.*|kernel_info|arithmetic.*|memory_ops.*)\\.cc$")
sb_component(sb_vm SOURCES ${vm_sources} ${H}/devices.cc $<TARGET_OBJECTS:sb_memory_ops_v2> $<TARGET_OBJECTS:sb_memory_ops_v3>
  LINK sb_ptx sb_arithmetic sb_cuda fmt::fmt)
target_compile_options(sb_vm PRIVATE -O2 -fno-math-errno -fno-trapping-math)

# tasks: description, shapes, data, oracles
file(GLOB oracle_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tasks/*/oracle.cc)
set(oracle_declarations "")
set(oracle_rows "")
foreach(source ${oracle_sources})
  get_filename_component(folder ${source} DIRECTORY)
  get_filename_component(id ${folder} NAME)
  file(STRINGS ${source} definition REGEX "^void oracle_${id}\\(")
  if(NOT definition)
    message(FATAL_ERROR "${source} does not define `void oracle_${id}(`: the function has the name of the task's folder")
  endif()
  string(APPEND oracle_declarations "void oracle_${id}(const OracleTensor&, std::span<const double>, int64_t, int64_t);\n")
  # Optional functions are found by their definitions; an edit of the file configures again.
  set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
  set(oracle_row "\"${id}\", oracle_${id}")
  foreach(optional reduce properties)
    file(STRINGS ${source} definition REGEX "^void oracle_${optional}_${id}\\(")
    if(definition)
      string(APPEND oracle_declarations "void oracle_${optional}_${id}(const OracleTensor&, std::span<const double>, std::span<double>);\n")
      string(APPEND oracle_row ", oracle_${optional}_${id}")
    else()
      string(APPEND oracle_row ", nullptr")
    endif()
  endforeach()
  string(APPEND oracle_rows "    {${oracle_row}},\n")
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/oracle_table.cc CONTENT
"// Generated from tasks/*/oracle.cc; do not edit.
#include \"tasks/oracle.h\"
namespace stepbench {
@oracle_declarations@
std::span<const OracleEntry> oracle_table() {
  static const OracleEntry table[] = {
@oracle_rows@  };
  return table;
}
}  // namespace stepbench
" @ONLY)
# Loops over billions of elements, see ORACLE_EACH_LEVEL in tasks/oracle.h. Their conditions that hold for all elements
# (a skipped step, no scales wanted) are taken out of them, whatever their size: a loop with a branch is not vectorised.
set(oracle_options -fno-math-errno -fno-trapping-math)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  list(APPEND oracle_options --param=max-unswitch-insns=1000 --param=max-unswitch-level=8)
endif()
set_property(SOURCE ${oracle_sources} APPEND PROPERTY COMPILE_OPTIONS ${oracle_options})
# What oracles share: threads, and linear algebra, its kernels once per instruction-set level: the time of the matrix
# tasks' oracles.
foreach(level base avx2 avx512)
  sb_level(sb_linear_algebra ${CMAKE_SOURCE_DIR}/tasks/linear_algebra_level.cc ${level})
  target_link_libraries(sb_linear_algebra_${level} PRIVATE Eigen3::Eigen)
  target_compile_definitions(sb_linear_algebra_${level} PRIVATE SB_EIGEN=eigen_${level})
  # GCC 12 takes _mm512_undefined_pd() of its own headers for a mistake.
  target_compile_options(sb_linear_algebra_${level} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endforeach()
sb_component(sb_linear_algebra
  SOURCES ${CMAKE_SOURCE_DIR}/tasks/linear_algebra.cc $<TARGET_OBJECTS:sb_linear_algebra_base>
          $<TARGET_OBJECTS:sb_linear_algebra_avx2> $<TARGET_OBJECTS:sb_linear_algebra_avx512>
  LINK sb_base Threads::Threads)
target_compile_options(sb_linear_algebra PRIVATE -O3)

sb_component(sb_task
  SOURCES ${H}/task.cc ${H}/json_reader.cc ${H}/shapes.cc ${H}/inputs.cc ${H}/code_map.cc ${H}/hyper.cc ${H}/formula.cc ${H}/floor.cc ${H}/oracle.cc ${H}/compare.cc ${H}/mutants.cc
          ${oracle_sources} ${CMAKE_BINARY_DIR}/generated/oracle_table.cc
  LINK sb_linear_algebra sb_base fmt::fmt nlohmann_json::nlohmann_json ${MUPARSER_LIBRARY} Threads::Threads)

# candidates: plan, expressions, sessions
sb_component(sb_plan SOURCES ${H}/candidate.cc ${H}/candidate_files.cc ${H}/plan_json.cc ${H}/expression.cc ${H}/plan.cc ${H}/plan_gemm.cc ${H}/plan_tensor_map.cc ${H}/arguments.cc ${H}/session.cc
  LINK sb_task)

# compiler front end
sb_component(sb_compile SOURCES ${H}/compile.cc ${H}/compile_child.cc ${H}/nvrtc.cc ${H}/sandbox.cc ${H}/cache.cc ${H}/task_header.cc ${H}/headers.cc ${H}/own_kernels.cc
  LINK sb_ptx sb_base fmt::fmt ${SECCOMP_LIBRARY} ${CMAKE_DL_LIBS})

# statistics of timed samples: what both the measurement and the scores need
sb_component(sb_statistics
  SOURCES ${CMAKE_SOURCE_DIR}/scoring/paired_ratio.cc ${CMAKE_SOURCE_DIR}/scoring/sample_time.cc
          ${CMAKE_SOURCE_DIR}/scoring/speedup.cc
  LINK sb_base fmt::fmt)

# checks and evaluation
file(GLOB check_sources CONFIGURE_DEPENDS ${H}/check_*.cc)
sb_component(sb_check SOURCES ${check_sources} ${H}/properties.cc ${H}/evaluate.cc ${H}/measure.cc ${H}/calibration.cc LINK sb_plan sb_compile sb_vm sb_statistics)

# records, scores, and the store that keeps them
file(GLOB store_sources CONFIGURE_DEPENDS ${H}/store/*.cc)
sb_component(sb_store
  SOURCES ${H}/record.cc ${H}/record_folder.cc ${H}/record_source.cc ${H}/resume.cc ${store_sources} ${CMAKE_SOURCE_DIR}/scoring/score.cc
          ${CMAKE_SOURCE_DIR}/scoring/rank.cc
  LINK sb_statistics sb_base fmt::fmt nlohmann_json::nlohmann_json SQLite::SQLite3)

# workers, board, command line
file(GLOB scoring_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/scoring/*.cc)
list(FILTER scoring_sources EXCLUDE REGEX "/(paired_ratio|sample_time|speedup|score|rank)\\.cc$")
file(GLOB command_sources CONFIGURE_DEPENDS ${H}/command_*.cc)
# The board's pages, style sheet and script become part of the program.
file(GLOB board_assets CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/scoring/board/*)
set(board_assets_source ${CMAKE_BINARY_DIR}/generated/board_assets.cc)
add_custom_command(OUTPUT ${board_assets_source}
  COMMAND ${CMAKE_COMMAND} -D OUTPUT=${board_assets_source} -D FOLDER=${CMAKE_SOURCE_DIR}/scoring/board
          -P ${CMAKE_SOURCE_DIR}/cmake/embed_board.cmake
  DEPENDS ${board_assets} ${CMAKE_SOURCE_DIR}/cmake/embed_board.cmake VERBATIM)
sb_component(sb_app
  SOURCES ${H}/worker.cc ${H}/evaluate_files.cc ${H}/audit.cc ${H}/report.cc ${H}/slurm.cc ${H}/slurm_manifest.cc ${command_sources} ${scoring_sources} ${board_assets_source}
  LINK sb_check sb_store nlohmann_json::nlohmann_json CLI11::CLI11)
add_executable(stepbench ${H}/main.cc)
target_link_libraries(stepbench PRIVATE sb_app)

# tests: one executable per folder of tests/, linked with the part it tests; adding a test is adding a file
enable_testing()
include(Catch)
add_library(sb_catch STATIC ${CMAKE_SOURCE_DIR}/tests/catch_main.cc)
target_link_libraries(sb_catch PUBLIC Catch2::Catch2 sb_flags)
target_precompile_headers(sb_catch INTERFACE <catch2/catch.hpp>)
# The same, for tests whose subject starts itself again as a compile child.
add_library(sb_catch_child STATIC ${CMAKE_SOURCE_DIR}/tests/catch_child_main.cc)
target_link_libraries(sb_catch_child PUBLIC Catch2::Catch2 sb_flags sb_compile)
target_precompile_headers(sb_catch_child INTERFACE <catch2/catch.hpp>)

function(sb_tests folder main)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${folder}/*_test.cc)
  if(NOT sources)
    return()
  endif()
  add_executable(test_${folder} ${sources})
  target_link_libraries(test_${folder} PRIVATE ${main} ${ARGN})
  target_compile_definitions(test_${folder} PRIVATE STEPBENCH_BINARY="$<TARGET_FILE:stepbench>"
    STEPBENCH_TEST_FOLDER="${CMAKE_SOURCE_DIR}/tests")
  catch_discover_tests(test_${folder} TEST_PREFIX "${folder}: " PROPERTIES LABELS "${folder}" TIMEOUT 1500)
endfunction()

sb_tests(base sb_catch sb_base)
sb_tests(ptx sb_catch sb_ptx)
sb_tests(arithmetic sb_catch sb_arithmetic)
sb_tests(vm sb_catch sb_vm)
sb_tests(task sb_catch sb_task)
foreach(loops sb_value_loops sb_linear_algebra)
  set(test "task: code of ${loops} for one instruction-set level has names of its own")
  add_test(NAME ${test}
    COMMAND ${CMAKE_SOURCE_DIR}/tests/task/check_level_symbols.sh ${CMAKE_NM} base $<TARGET_OBJECTS:${loops}_base>
            avx2 $<TARGET_OBJECTS:${loops}_avx2> avx512 $<TARGET_OBJECTS:${loops}_avx512>)
  set_property(TEST ${test} PROPERTY LABELS task)
endforeach()
sb_tests(plan sb_catch sb_plan)
sb_tests(compile sb_catch_child sb_compile sb_task)
sb_tests(check sb_catch_child sb_check)
sb_tests(app sb_catch sb_app)
sb_tests(store sb_catch sb_store sb_plan sb_compile)
sb_tests(scoring sb_catch sb_app)
sb_tests(slurm sb_catch sb_app)
sb_tests(board sb_catch sb_app)
sb_tests(faults sb_catch_child sb_app)
sb_tests(bad_input sb_catch sb_app)
foreach(part app faults bad_input store board slurm)
  if(TARGET test_${part})
    add_dependencies(test_${part} stepbench)
  endif()
endforeach()

# Generated records for tests and measurements of the store and of what reads it.
add_executable(make_records ${CMAKE_SOURCE_DIR}/tests/store/make_records.cc)
target_link_libraries(make_records PRIVATE sb_store)
if(TARGET test_store)
  target_compile_definitions(test_store PRIVATE MAKE_RECORDS="$<TARGET_FILE:make_records>")
  add_dependencies(test_store make_records)
endif()

# A made-up board for the check of its pages in a browser.
add_executable(make_board_sample ${CMAKE_SOURCE_DIR}/tests/board/make_sample.cc)
target_link_libraries(make_board_sample PRIVATE sb_app)
add_test(NAME "board: pages in a browser"
  COMMAND ${CMAKE_SOURCE_DIR}/tests/board/check_site.sh ${CMAKE_BINARY_DIR})
set_tests_properties("board: pages in a browser" PROPERTIES LABELS board SKIP_RETURN_CODE 77 TIMEOUT 900)

# GPU tests: skipped, not passed, where there is no GPU (exit code 77 of tests/cuda/main.cc)
file(GLOB gpu_test_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/cuda/*.cc)
add_executable(test_cuda ${gpu_test_sources})
target_link_libraries(test_cuda PRIVATE Catch2::Catch2 sb_app)
target_compile_definitions(test_cuda PRIVATE STEPBENCH_TEST_FOLDER="${CMAKE_SOURCE_DIR}/tests")
catch_discover_tests(test_cuda TEST_PREFIX "cuda: " PROPERTIES LABELS gpu SKIP_RETURN_CODE 77 TIMEOUT 900)

# Google Benchmark targets: tests/bench/*.cc
file(GLOB bench_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/bench/*.cc)
if(bench_sources)
  add_executable(stepbench_bench ${bench_sources})
  target_link_libraries(stepbench_bench PRIVATE sb_check benchmark::benchmark)
  # Once each, so that they are known to run; their figures mean nothing here.
  add_test(NAME "bench: every benchmark without a GPU runs"
    COMMAND stepbench_bench --benchmark_filter=-^gpu/ --benchmark_min_time=0)
  set_tests_properties("bench: every benchmark without a GPU runs" PROPERTIES LABELS bench TIMEOUT 300
    FAIL_REGULAR_EXPRESSION "ERROR OCCURRED|Failed to match" PASS_REGULAR_EXPRESSION "compile/adamw_naive")
endif()

# libFuzzer targets: tests/fuzz/<name>.cc, each linked with the part it feeds (fuzz_link_<name>, default sb_plan)
set(fuzz_link_ptx_parse sb_ptx)
if(STEPBENCH_FUZZ)
  file(GLOB fuzz_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/fuzz/*.cc)
  foreach(source ${fuzz_sources})
    get_filename_component(name ${source} NAME_WE)
    add_executable(fuzz_${name} ${source})
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    if(DEFINED fuzz_link_${name})
      target_link_libraries(fuzz_${name} PRIVATE ${fuzz_link_${name}})
    else()
      target_link_libraries(fuzz_${name} PRIVATE sb_plan)
    endif()
  endforeach()
endif()
