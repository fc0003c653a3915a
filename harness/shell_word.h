// Text in commands that are printed for people to run.
#pragma once

#include <string>

namespace stepbench {

/// `text` as one word of a shell command: as it is where that is safe, else in single quotes.
std::string shell_word(const std::string& text);

}  // namespace stepbench
