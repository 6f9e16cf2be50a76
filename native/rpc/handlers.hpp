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
    using Handle = std::function<std::variant<Answer, Blocking>(Request&)>;

    void add(Op op, Handle handle) {
        Handle& place = handlers_.at(static_cast<std::size_t>(op));
        assert(!place);  // one for each
        place = std::move(handle);
    }

    std::variant<Answer, Blocking> handle(Request request) override {
        const Handle& known = handlers_.at(static_cast<std::size_t>(request.header.op));
        if (!known) return Answer(Status(Code::BadInput, "unknown operation"));
        return known(request);
    }

  private:
    std::array<Handle, kLastOp + 1> handlers_;
};

}  // namespace holdfast
