// Error, Result<T> and the always-on assertion.
//
// Three kinds of failure, three mechanisms, never mixed:
//   the candidate is wrong -> Failure with a Verdict, which is data (model.h);
//   the world is wrong     -> Result<T> holding an Error (this file);
//   we are wrong           -> SB_ASSERT, which aborts and is never used on input.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace stepbench {

/// Closed list of what can be wrong with the world. The command line maps it to an exit code:
/// usage and input errors give 2, all others 3.
enum class ErrorCode {
  kUsage,          ///< the command line asks for something that does not exist
  kNotFound,       ///< a named file, task, record or kernel is missing
  kInvalidInput,   ///< a file given by the user cannot be read as what it should be
  kInvalidTask,    ///< a task folder contradicts the task format
  kInvalidRecord,  ///< a stored record contradicts the record format
  kUnavailable,    ///< a compiler, driver or device is not on this machine
  kIo,             ///< the operating system refused to read, write, fork or map
  kTimeout,        ///< a child of ours did not answer in time
  kResource,       ///< memory, disk or another bounded resource ran out
  kUnsupported,    ///< asked for something that this build does not do
  kInternal,       ///< a library reported what it should never report
};

/// One thing that is wrong with the world, in one sentence.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;   ///< one lower-case sentence without a final period
  std::string place;     ///< file:line, JSON pointer, call name; empty when there is none
  std::string expected;  ///< what would have been right; may be empty
  std::string found;     ///< what was there; may be empty
};

/// "place: message (expected X, found Y)", leaving out what is empty.
std::string to_text(const Error& error);

[[noreturn]] void assertion_failed(const char* expression, const char* file, int line);

/// Always on, in every build. For our own mistakes only.
#define SB_ASSERT(expression) ((expression) ? void() : ::stepbench::assertion_failed(#expression, __FILE__, __LINE__))

/// A value or an Error. Callers must look: asking for the wrong one is an assertion.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit by design
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit by design

  bool ok() const { return state_.index() == 0; }
  T& value() & {
    SB_ASSERT(ok());
    return std::get<0>(state_);
  }
  const T& value() const& {
    SB_ASSERT(ok());
    return std::get<0>(state_);
  }
  /// By value, so that `for (x : f().value())` and `auto& x = f().value()` do not outlive a temporary.
  T value() && {
    SB_ASSERT(ok());
    return std::get<0>(std::move(state_));
  }
  const Error& error() const {
    SB_ASSERT(!ok());
    return std::get<1>(state_);
  }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit by design

  bool ok() const { return !error_.has_value(); }
  const Error& error() const {
    SB_ASSERT(!ok());
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

}  // namespace stepbench
