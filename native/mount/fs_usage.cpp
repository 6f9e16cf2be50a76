#include "mount/fs_usage.hpp"

#include "base/thread.hpp"

namespace holdfast::mount {
namespace {

constexpr auto kFresh = std::chrono::seconds(1);
constexpr auto kWait = std::chrono::milliseconds(200);

}  // namespace

FsUsage::FsUsage(const Settings& settings) : settings_(settings), known_(settings.roots.size()) {
    for (auto& one : known_) {
        one.f_bsize = one.f_frsize = 4096;
        one.f_namemax = 255;
    }
    start_thread([this] { run(); }).detach();
}

struct statvfs FsUsage::get(const Root* root) {
    auto index = root == nullptr ? 0 : static_cast<std::size_t>(root - settings_.roots.data());
    Lock lock(mutex_);
    auto fresh = [&]() REQUIRES(mutex_) { return Clock::now() - asked_ < kFresh; };
    if (!fresh()) {
        wanted_ = true;
        changed_.notify_all();
        changed_.wait_for(lock, kWait, fresh);
    }
    return known_[index];
}

void FsUsage::run() {
    for (;;) {
        Lock lock(mutex_);
        changed_.wait(lock, [&]() REQUIRES(mutex_) { return wanted_; });
        wanted_ = false;
        lock.unlock();
        for (std::size_t i = 0; i < settings_.roots.size(); ++i) {
            struct statvfs found{};
            if (::statvfs(settings_.roots[i].path.c_str(), &found) != 0) continue;
            Lock again(mutex_);
            known_[i] = found;
        }
        lock.lock();
        asked_ = Clock::now();
        changed_.notify_all();
    }
}

}  // namespace holdfast::mount
