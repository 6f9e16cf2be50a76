// Locks as the standard library has them, which clang can check as well: what is GUARDED_BY a lock
// is used by who holds it, and what REQUIRES one is called by who holds it (`make check`).
//
// A predicate that is given to Condition runs with the lock held; say so: `[&]() REQUIRES(mutex_)`.
#pragma once

#include <condition_variable>
#include <mutex>
#include <shared_mutex>

#ifdef __clang__
#define HOLDFAST_CHECKED(what) __attribute__((what))
#else
#define HOLDFAST_CHECKED(what)
#endif
#define GUARDED_BY(mutex) HOLDFAST_CHECKED(guarded_by(mutex))
#define REQUIRES(...) HOLDFAST_CHECKED(requires_capability(__VA_ARGS__))
#define REQUIRES_SHARED(...) HOLDFAST_CHECKED(requires_shared_capability(__VA_ARGS__))
#define EXCLUDES(...) HOLDFAST_CHECKED(locks_excluded(__VA_ARGS__))
#define ACQUIRED_BEFORE(...) HOLDFAST_CHECKED(acquired_before(__VA_ARGS__))
#define NOT_CHECKED HOLDFAST_CHECKED(no_thread_safety_analysis)

namespace holdfast {

class HOLDFAST_CHECKED(capability("mutex")) Mutex {
  public:
    void lock() HOLDFAST_CHECKED(acquire_capability()) { mutex_.lock(); }
    void unlock() HOLDFAST_CHECKED(release_capability()) { mutex_.unlock(); }

  private:
    friend class Lock;
    std::mutex mutex_;
};

// Holds it until the end of the block, or until unlock().
class HOLDFAST_CHECKED(scoped_lockable) Lock {
  public:
    explicit Lock(Mutex& mutex) HOLDFAST_CHECKED(acquire_capability(mutex)) : lock_(mutex.mutex_) {}
    ~Lock() HOLDFAST_CHECKED(release_capability()) = default;
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

    void unlock() HOLDFAST_CHECKED(release_capability()) { lock_.unlock(); }
    void lock() HOLDFAST_CHECKED(acquire_capability()) { lock_.lock(); }

  private:
    friend class Condition;
    std::unique_lock<std::mutex> lock_;
};

class HOLDFAST_CHECKED(capability("mutex")) SharedMutex {
  public:
    void lock() HOLDFAST_CHECKED(acquire_capability()) { mutex_.lock(); }
    void unlock() HOLDFAST_CHECKED(release_capability()) { mutex_.unlock(); }
    void lock_shared() HOLDFAST_CHECKED(acquire_shared_capability()) { mutex_.lock_shared(); }
    void unlock_shared() HOLDFAST_CHECKED(release_shared_capability()) { mutex_.unlock_shared(); }

  private:
    std::shared_mutex mutex_;
};

class HOLDFAST_CHECKED(scoped_lockable) WriteLock {
  public:
    explicit WriteLock(SharedMutex& mutex) HOLDFAST_CHECKED(acquire_capability(mutex))
        : mutex_(mutex) {
        mutex_.lock();
    }
    ~WriteLock() HOLDFAST_CHECKED(release_capability()) { mutex_.unlock(); }
    WriteLock(const WriteLock&) = delete;
    WriteLock& operator=(const WriteLock&) = delete;

  private:
    SharedMutex& mutex_;
};

class HOLDFAST_CHECKED(scoped_lockable) ReadLock {
  public:
    explicit ReadLock(SharedMutex& mutex) HOLDFAST_CHECKED(acquire_shared_capability(mutex))
        : mutex_(mutex) {
        mutex_.lock_shared();
    }
    ~ReadLock() HOLDFAST_CHECKED(release_generic_capability()) { mutex_.unlock_shared(); }
    ReadLock(const ReadLock&) = delete;
    ReadLock& operator=(const ReadLock&) = delete;

  private:
    SharedMutex& mutex_;
};

// A condition variable. The lock is held again when a wait returns.
class Condition {
  public:
    void notify_one() { changed_.notify_one(); }
    void notify_all() { changed_.notify_all(); }

    void wait(Lock& lock) { changed_.wait(lock.lock_); }
    template <typename Predicate>
    void wait(Lock& lock, Predicate done) NOT_CHECKED {
        changed_.wait(lock.lock_, done);
    }
    template <typename Time>
    void wait_for(Lock& lock, const Time& time) {
        changed_.wait_for(lock.lock_, time);
    }
    template <typename Time, typename Predicate>
    bool wait_for(Lock& lock, const Time& time, Predicate done) NOT_CHECKED {
        return changed_.wait_for(lock.lock_, time, done);
    }
    template <typename Time>
    void wait_until(Lock& lock, const Time& time) {
        changed_.wait_until(lock.lock_, time);
    }

  private:
    std::condition_variable changed_;
};

}  // namespace holdfast
