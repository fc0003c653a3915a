# Files of scoring/board/ -> one C++ file with their text, so that the program needs none of them at run time.
#   cmake -D OUTPUT=file.cc -D FOLDER=scoring/board -P embed_board.cmake
# Each text becomes a list of bytes: no delimiter to clash with, no limit on the length of a literal.
file(GLOB files ${FOLDER}/*)
list(SORT files)
set(arrays "")
set(rows "")
set(index 0)
foreach(file ${files})
  get_filename_component(name ${file} NAME)
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "(................................................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
  string(APPEND arrays "constexpr char kFile${index}[] = {\n${bytes}'\\0'};\n")
  string(APPEND rows "    {\"${name}\", {kFile${index}, sizeof(kFile${index}) - 1}},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(WRITE ${OUTPUT}.new "// Generated from scoring/board/; do not edit.
#include <fmt/format.h>

#include <cstdio>

#include \"harness/result.h\"
#include \"scoring/board_template.h\"

namespace stepbench {
namespace {
${arrays}
struct Asset {
  std::string_view name, text;
};
constexpr Asset kAssets[] = {
${rows}};
}  // namespace

std::string_view board_asset(std::string_view file) {
  for (const Asset& asset : kAssets)
    if (asset.name == file) return asset.text;
  fmt::print(stderr, \"no file {} in scoring/board\\n\", file);
  SB_ASSERT(false);
  return {};
}
}  // namespace stepbench
")
file(RENAME ${OUTPUT}.new ${OUTPUT})
