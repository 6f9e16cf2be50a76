#include "store/scrub.hpp"

#include "base/thread.hpp"

namespace holdfast {
namespace {

constexpr double kBetweenRounds = 2.0;  // seconds; an almost empty store needs no more
constexpr std::size_t kObjectsAtOnce = 64;
constexpr std::uint64_t kOverhead = 4096;  // what looking at an object costs, in bytes

}  // namespace

Scrub::Scrub(Store& store, std::uint64_t bytes_per_second)
    : store_(store), rate_(static_cast<double>(bytes_per_second)) {
    if (bytes_per_second > 0) thread_ = start_thread([this] { run(); });
}

Scrub::~Scrub() {
    {
        Lock lock(mutex_);
        stopping_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
}

bool Scrub::rest(double seconds) {
    Lock lock(mutex_);
    return !wake_.wait_for(lock, std::chrono::duration<double>(seconds),
                           [&]() REQUIRES(mutex_) { return stopping_; });
}

void Scrub::run() {
    std::string after;
    for (;;) {
        auto objects = store_.list("", after, kObjectsAtOnce);
        for (auto& object : objects) {
            // A bad copy is dropped, counted and logged by the store.
            (void)store_.verify(object);
            if (!rest(static_cast<double>(object->size + kOverhead) / rate_)) return;
        }
        after = objects.empty() ? std::string() : objects.back()->key;
        objects.clear();
        if (after.empty() && !rest(kBetweenRounds)) return;
    }
}

}  // namespace holdfast
