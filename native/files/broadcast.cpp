#include "files/broadcast.hpp"

#include <sys/stat.h>

#include <chrono>
#include <string>
#include <system_error>
#include <utility>

#include "base/log.hpp"
#include "base/thread.hpp"
#include "files/listing.hpp"

namespace holdfast {
namespace {

constexpr auto kDeadline = std::chrono::seconds(20);  // for one of them

}  // namespace

Broadcast::~Broadcast() {
    stop();
}

void Broadcast::stop() {
    std::list<Run> ending;
    {
        Lock lock(mutex_);
        for (Run& run : runs_) run.stopping = true;
        ending.swap(runs_);
        wake_.notify_all();
    }
    for (Run& run : ending)
        for (auto& thread : run.threads) thread.join();
}

void Broadcast::start(TreeOrder top) {
    std::uint64_t largest = tree_.settings().largest;
    top.kind = TreeOrder::Kind::Listing;
    std::list<Run> ended;  // their threads have nothing left to do
    {
        Lock lock(mutex_);
        for (auto run = runs_.begin(); run != runs_.end();) {
            auto one = run++;
            one->stopping = true;
            if (one->working == 0) ended.splice(ended.end(), runs_, one);
        }
        wake_.notify_all();
        Run& run = runs_.emplace_back(
            Run{.largest = largest, .placement = tree_.placement(), .waiting = {std::move(top)}});
        while (run.threads.size() < kThreads) {
            try {
                run.threads.push_back(start_thread([this, &run] { work(run); }));
                ++run.working;
            } catch (const std::system_error&) {  // the limit of the user or of the cgroup
                break;
            }
        }
        run.progress.ended = run.threads.empty();
    }
    for (Run& run : ended)
        for (auto& thread : run.threads) thread.join();
}

void Broadcast::tell() {
    if (progressed_ && !std::exchange(told_, true)) progressed_();
}

Broadcast::Progress Broadcast::progress() {
    Lock lock(mutex_);
    told_ = false;
    return runs_.empty() ? Progress() : runs_.back().progress;
}

void Broadcast::work(Run& run) {
    Lock lock(mutex_);
    for (;;) {
        wake_.wait(lock,
                   [&] { return run.stopping || !run.waiting.empty() || run.under_way == 0; });
        if (run.stopping || (run.waiting.empty() && !retry(run))) break;
        TreeOrder order = std::move(run.waiting.front());
        run.waiting.pop_front();
        ++run.under_way;
        lock.unlock();
        auto document = tree_.obtain(order, kDeadline);
        done(run, order, document);
        lock.lock();
        --run.under_way;
        wake_.notify_all();
    }
    if (!std::exchange(run.progress.ended, true) && !run.stopping)
        for (auto& [order, why] : run.failed)
            log_warning("a broadcast left out " + order.path + ": " + why);
    --run.working;
    tell();
}

bool Broadcast::retry(Run& run) {
    PlacementPtr before = std::exchange(run.placement, tree_.placement());
    if (run.progress.ended || run.failed.empty() || before == run.placement) return false;
    for (auto& [order, why] : run.failed) {
        run.progress.found -= order.kind == TreeOrder::Kind::Listing;
        --run.progress.left_out;
        run.waiting.push_back(std::move(order));
    }
    run.failed.clear();
    wake_.notify_all();
    return true;
}

void Broadcast::done(Run& run, const TreeOrder& order, const Result<Document>& document) {
    bool is_file = order.kind == TreeOrder::Kind::File;
    Listing listing;
    Status failure;
    if (!document.ok()) {
        failure = document.status();
    } else if (!is_file) {
        auto read = read_listing(document->file->get(), document->size);
        if (read.ok())
            listing = std::move(*read);
        else
            failure = read.take_status();
    } else if (!document->keep) {
        failure = Status(Code::NotCached, "it changed a moment ago, or there was no room for it");
    }
    Lock lock(mutex_);
    Progress& progress = run.progress;
    tell();
    if (!failure.ok()) {
        progress.found += !is_file;  // nobody knows what it would have named
        ++progress.left_out;
        run.failed.push_back({order, failure.message()});
        return;
    }
    if (is_file) {
        ++progress.fetched;
        progress.bytes += document->size;
        return;
    }
    for (const Entry& entry : listing.entries) {
        bool directory = S_ISDIR(entry.attributes.mode);
        if (S_ISLNK(entry.attributes.mode)) continue;
        progress.found += !directory;
        bool wanted =
            directory || (S_ISREG(entry.attributes.mode) && entry.attributes.size <= run.largest);
        progress.left_out += !wanted;
        if (!wanted) continue;
        TreeOrder next = order;
        next.kind = directory ? TreeOrder::Kind::Listing : TreeOrder::Kind::File;
        next.path = (order.path == "/" ? "" : order.path) + "/" + entry.name;
        run.waiting.push_back(std::move(next));
    }
    wake_.notify_all();
}

}  // namespace holdfast
