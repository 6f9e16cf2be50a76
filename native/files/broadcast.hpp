// Brings everything below a directory to this node before a program asks for it: listings through
// their trees, and what they name. Large files are left out, they come in parts on demand.
//
// Thread-safe. start() and progress() do not block; a few threads of its own do the work, and end
// with it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.hpp"
#include "files/messages.hpp"
#include "files/tree.hpp"

namespace holdfast {

class Broadcast {
  public:
    struct Progress {
        std::uint64_t found = 0;     // files so far
        std::uint64_t fetched = 0;   // of them here now
        std::uint64_t bytes = 0;     // of these
        std::uint64_t left_out = 0;  // too large, too young, unreadable, or not regular; so far
        bool ended = true;
    };

    explicit Broadcast(Tree& tree) : tree_(tree) {}
    ~Broadcast();

    // In place of what was under way, if there was something.
    void start(TreeOrder top);
    Progress progress();
    // Calls `progressed` when there is more to tell than progress() did last, once until it is
    // asked again; it must not block. Before start().
    void watch(std::function<void()> progressed) { progressed_ = std::move(progressed); }
    // May block, as long as one document takes.
    void stop();

  private:
    static constexpr std::size_t kThreads = 8;
    struct Failed {
        TreeOrder order;
        std::string why;
    };
    // What one start() began; its threads end after the document that they wait for.
    struct Run {
        std::uint64_t largest;
        PlacementPtr placement;
        std::deque<TreeOrder> waiting;
        std::vector<Failed> failed = {};  // with `placement`
        std::size_t under_way = 0;
        std::size_t working = 0;  // threads
        bool stopping = false;
        Progress progress = {.ended = false};
        std::vector<std::thread> threads = {};
    };
    void work(Run& run);
    void tell() REQUIRES(mutex_);
    void done(Run& run, const TreeOrder& order, const Result<Document>& document);
    // Who was asked may have failed only because nodes did not agree on the view: what failed
    // before it changed is asked for again. False if that is nothing.
    bool retry(Run& run) REQUIRES(mutex_);

    Tree& tree_;
    std::function<void()> progressed_;
    Mutex mutex_;
    bool told_ GUARDED_BY(mutex_) = false;
    Condition wake_;
    std::list<Run> runs_ GUARDED_BY(mutex_);  // the last one counts, those before it are ending
};

}  // namespace holdfast
