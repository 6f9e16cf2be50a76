// Failures are values inside the core. A Status says what kind of failure, in a sentence, and
// where; a Result is a value or a Status. They become exceptions once, at the binding.
#pragma once

#include <cassert>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <variant>

namespace holdfast {

// Each code is an exception of src/holdfast/errors.py of the same name (a test ties them together)
// and travels in the status field of a frame: append, never renumber.
enum class Code : std::uint16_t {
    Ok = 0,
    HoldfastError = 1,
    BadInput = 2,
    KeyExists = 3,
    NotFound = 4,
    Unavailable = 5,
    DeadlineMissed = 6,
    Busy = 7,
    Full = 8,
    Refused = 9,
    Damaged = 10,
    StaleView = 11,
    Dropped = 12,
    NotCached = 13,
};
constexpr std::uint16_t kLastCode = 13;

class [[nodiscard]] Status {
  public:
    Status() = default;
    Status(Code code, std::string message, std::string at = {})
        : code_(code), message_(std::move(message)), at_(std::move(at)) {}

    bool ok() const { return code_ == Code::Ok; }
    Code code() const { return code_; }
    const std::string& message() const { return message_; }

    // The address where it happened, if not here: further down a chain, at the other end of a wire.
    const std::string& at() const { return at_; }
    Status&& located(const std::string& address) && {
        if (at_.empty()) at_ = address;
        return std::move(*this);
    }

  private:
    Code code_ = Code::Ok;
    std::string message_;
    std::string at_;
};

// A failed system call: `what` failed, because of errno.
inline Status system_failure(Code code, const std::string& what, int error) {
    return Status(code, what + ": " + std::strerror(error));
}

template <typename T>
class [[nodiscard]] Result {
  public:
    Result(T value) : state_(std::move(value)) {}
    Result(Status failure) : state_(std::move(failure)) { assert(!std::get<Status>(state_).ok()); }

    bool ok() const { return state_.index() == 0; }
    T& operator*() { return std::get<0>(state_); }
    const T& operator*() const { return std::get<0>(state_); }
    T* operator->() { return &std::get<0>(state_); }
    const T* operator->() const { return &std::get<0>(state_); }
    const Status& status() const { return std::get<1>(state_); }
    Status&& take_status() { return std::move(std::get<1>(state_)); }

  private:
    std::variant<T, Status> state_;
};

}  // namespace holdfast
