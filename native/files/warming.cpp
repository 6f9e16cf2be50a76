#include "files/warming.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>

#include "base/thread.hpp"
#include "files/listing.hpp"

namespace holdfast {
namespace {

constexpr auto kPatience = std::chrono::seconds(20);  // for one of them

Result<Listing> listing_in(const Document& document) {
    std::string bytes(document.size, '\0');
    for (std::size_t at = 0; at < bytes.size();) {
        auto got = ::pread(document.file->get(), bytes.data() + at, bytes.size() - at,
                           static_cast<off_t>(at));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return Status(Code::Damaged, "a listing is cut short");
        at += static_cast<std::size_t>(got);
    }
    return Listing::decode(bytes);
}

}  // namespace

Warming::~Warming() {
    stop();
}

void Warming::stop() {
    {
        std::lock_guard lock(mutex_);
        stopping_ = true;
        wake_.notify_all();
    }
    for (auto& thread : threads_) thread.join();
    threads_.clear();
}

void Warming::start(TreeOrder top, std::uint64_t largest) {
    stop();
    std::lock_guard lock(mutex_);
    stopping_ = false;
    largest_ = largest;
    progress_ = {.ended = false};
    top.kind = TreeOrder::Kind::Listing;
    waiting_.assign(1, std::move(top));
    under_way_ = 0;
    for (std::size_t i = 0; i < kThreads; ++i) threads_.push_back(start_thread([this] { work(); }));
}

Warming::Progress Warming::progress() const {
    std::lock_guard lock(mutex_);
    return progress_;
}

void Warming::work() {
    std::unique_lock lock(mutex_);
    for (;;) {
        wake_.wait(lock, [&] { return stopping_ || !waiting_.empty() || under_way_ == 0; });
        if (stopping_ || waiting_.empty()) break;
        TreeOrder order = std::move(waiting_.front());
        waiting_.pop_front();
        ++under_way_;
        lock.unlock();
        auto document = tree_.obtain(order, kPatience);
        done(order, document);
        lock.lock();
        --under_way_;
        wake_.notify_all();
    }
    progress_.ended = true;
}

void Warming::done(const TreeOrder& order, const Result<Document>& document) {
    if (order.kind == TreeOrder::Kind::File) {
        std::lock_guard lock(mutex_);
        bool kept = document.ok() && document->keep;
        ++(kept ? progress_.fetched : progress_.left_out);
        progress_.bytes += kept ? document->size : 0;
        return;
    }
    if (!document.ok()) return;
    auto listing = listing_in(*document);
    if (!listing.ok()) return;
    std::lock_guard lock(mutex_);
    for (const Entry& entry : listing->entries) {
        bool directory = S_ISDIR(entry.attributes.mode);
        if (S_ISLNK(entry.attributes.mode)) continue;
        progress_.found += !directory;
        bool wanted =
            directory || (S_ISREG(entry.attributes.mode) && entry.attributes.size <= largest_);
        progress_.left_out += !wanted;
        if (!wanted) continue;
        TreeOrder next = order;
        next.kind = directory ? TreeOrder::Kind::Listing : TreeOrder::Kind::File;
        next.path = (order.path == "/" ? "" : order.path) + "/" + entry.name;
        waiting_.push_back(std::move(next));
    }
    wake_.notify_all();
}

}  // namespace holdfast
