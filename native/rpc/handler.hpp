// What a server is given to do: a Handler turns each Request into an Answer, at once, on a thread
// that may block, or at some later time, without a thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/status.hpp"
#include "rpc/frame.hpp"

namespace holdfast {

class Body;  // rpc/body.hpp

// What a handler keeps for a connection. It goes when the connection does, on any thread, and must
// not block that.
class Kept {
  public:
    virtual ~Kept() = default;
    // Whether the connection may stay although it has rested for long. Called on a network thread
    // now and then: must not block.
    virtual bool lives() = 0;
};

struct Request {
    Header header;
    std::string meta;
    bool local = false;  // over a Unix socket: descriptors can be passed
    // Of the connection; whoever serves the request has it to itself.
    std::unique_ptr<Kept>* kept = nullptr;
};

// Bytes in memory that `owner` keeps alive.
struct HeapSlice {
    std::shared_ptr<const void> owner;
    const char* data = nullptr;
    std::size_t size = 0;
};

// Bytes of a file. Where reading may block (a disk), the server reads on a thread of its pool.
struct FileSlice {
    std::shared_ptr<const Fd> file;
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    bool may_block = false;
    // Told of an error of reading, on a thread that may block; may be empty.
    std::function<void(int error)> unreadable = {};
};

// A file that is served while it is still being written. Thread-safe.
class Growing {
  public:
    virtual ~Growing() = default;

    struct Progress {
        std::uint64_t bytes = 0;  // that may be sent
        bool ended = false;
        bool failed = false;
        std::uint32_t crc = 0;  // once it ended well
    };
    virtual Progress progress() const = 0;
    // Calls `wake` once, from any thread, as soon as there are more than `bytes` or it has ended.
    virtual void wake_beyond(std::uint64_t bytes, std::function<void()> wake) = 0;
    virtual FileSlice file() const = 0;  // of its full size
};

struct Answer {
    Status status;
    std::uint16_t flags = 0;
    std::string meta;
    std::variant<std::monostate, HeapSlice, FileSlice, std::shared_ptr<Growing>> body;
    std::uint32_t body_crc = 0;  // unless it grows
    std::vector<Fd> descriptors;

    Answer() = default;
    Answer(Status failure) : status(std::move(failure)) {}
};

// Work for a thread that may block; it reads the request's body, if there is one, from the Body.
struct Blocking {
    std::size_t lane;
    std::function<Answer(Body&)> run;
    // The client is about to ask again: the thread waits for that for a moment, which spares a
    // change of threads. For requests without a body.
    bool lingers = false;
};

// An answer that comes later, of a request with Op::Wait; no thread waits for it.
struct Parked {
    // From any thread, once; it never blocks. A client that has gone meanwhile is not told.
    using Reply = std::function<void(Result<std::string>)>;
    // Called when the client has gone or asks no more; never after the reply was given.
    using Cancel = std::function<void()>;
    // Called at once, on the network thread: must not block.
    std::function<Result<Cancel>(Reply)> start;
};

using Outcome = std::variant<Answer, Blocking, Parked>;

class Handler {
  public:
    virtual ~Handler() = default;
    // Called on a network thread: must not block. A request with a body must be Blocking.
    virtual Outcome handle(Request request) = 0;
    // For how long those who give the parked answers have been silent beyond what is usual.
    virtual Duration overdue() const { return {}; }
};

}  // namespace holdfast
