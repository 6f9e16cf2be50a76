// What a server does, by operation: each part of an agent adds its own. Thread-safe once all have
// been added, which is before the server starts.
#pragma once

#include <array>
#include <cassert>
#include <functional>
#include <variant>

#include "rpc/handler.hpp"

namespace holdfast {

class Handlers : public Handler {
  public:
    // Under the same rules as Handler::handle().
    using Handle = std::function<Outcome(Request&)>;

    void add(Op op, Handle handle) {
        Handle& place = handlers_.at(static_cast<std::size_t>(op));
        assert(!place);  // one for each
        place = std::move(handle);
    }

    Outcome handle(Request request) override {
        const Handle& known = handlers_.at(static_cast<std::size_t>(request.header.op));
        if (!known) return Answer(Status(Code::BadInput, "unknown operation"));
        return known(request);
    }

    // Set before the server starts, like the others.
    void watch_overdue(std::function<Duration()> overdue) { overdue_ = std::move(overdue); }
    Duration overdue() const override { return overdue_ ? overdue_() : Duration(); }

  private:
    std::array<Handle, kLastOp + 1> handlers_;
    std::function<Duration()> overdue_;
};

}  // namespace holdfast
