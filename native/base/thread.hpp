// Threads of the core take no signals: those belong to the interpreter's threads. A write to a
// closed connection then gives EPIPE also from sendfile, which cannot ask for that itself.
#pragma once

#include <csignal>
#include <functional>
#include <thread>
#include <utility>

namespace holdfast {

inline std::thread start_thread(std::function<void()> run) {
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    struct Restore {
        const sigset_t& mask;
        ~Restore() { ::pthread_sigmask(SIG_SETMASK, &mask, nullptr); }
    } restore{before};
    return std::thread(std::move(run));
}

}  // namespace holdfast
