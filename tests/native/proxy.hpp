// A network that fails on purpose: passes connections on to an agent, and cuts or holds what comes
// back.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "rpc/address.hpp"
#include "support.hpp"

namespace holdfast::test {

class Proxy {
  public:
    explicit Proxy(std::string target)
        : target_(std::move(target)),
          listener_(std::move(*listen_on(*Address::parse("tcp:127.0.0.1:0")))) {
        tcp = Address::of(listener_)->text;
        acceptor_ = std::thread([this] { accept_all(); });
    }
    ~Proxy() {
        stopping_ = true;
        acceptor_.join();
        for (auto& thread : threads_) thread.join();
    }

    std::string tcp;
    std::atomic<bool> held{false};  // nothing comes back
    // Nothing comes back on the connections that there are; new ones are not held up.
    void hold_present() { present_ = accepted_.load(); }
    void let_go() { present_ = 0; }
    // After so many bytes came back the connection is cut, and nobody listens here any more.
    std::atomic<std::uint64_t> cut_after{~std::uint64_t{0}};
    std::atomic<std::uint64_t> came_back{0};

  private:
    void accept_all() {
        while (!stopping_ && came_back < cut_after) {
            pollfd waiting{listener_.get(), POLLIN, 0};
            if (::poll(&waiting, 1, 5) != 1) continue;
            auto near = std::make_shared<Fd>(::accept4(listener_.get(), nullptr, nullptr, 0));
            auto far = std::make_shared<Fd>(raw_connection(target_));
            threads_.emplace_back(
                [this, near, far, number = accepted_++] { pump(*near, *far, number); });
        }
        listener_.reset();
    }
    void pump(const Fd& near, const Fd& far, std::size_t number) {
        std::vector<char> piece(64 << 10);
        auto holds = [&] { return held || number < present_; };
        while (!stopping_ && came_back < cut_after) {
            pollfd both[2] = {{near.get(), POLLIN, 0},
                              {far.get(), static_cast<short>(holds() ? 0 : POLLIN), 0}};
            if (::poll(both, 2, 5) <= 0) continue;
            if (both[0].revents != 0 && move(near, far, piece, piece.size()) <= 0) break;
            if (holds() || both[1].revents == 0) continue;
            std::uint64_t back = came_back, end = cut_after;
            if (back >= end) break;
            auto got = move(far, near, piece, std::min<std::uint64_t>(piece.size(), end - back));
            if (got <= 0) break;
            came_back += static_cast<std::uint64_t>(got);
        }
        ::shutdown(near.get(), SHUT_RDWR);
        ::shutdown(far.get(), SHUT_RDWR);
    }
    static ssize_t move(const Fd& from, const Fd& to, std::vector<char>& piece, std::size_t most) {
        auto got = ::recv(from.get(), piece.data(), most, 0);
        if (got > 0 && !send_all(to.get(), {piece.data(), static_cast<std::size_t>(got)}))
            return -1;
        return got;
    }

    const std::string target_;
    Fd listener_;
    std::atomic<bool> stopping_{false};
    std::atomic<std::size_t> accepted_{0}, present_{0};
    std::thread acceptor_;
    std::vector<std::thread> threads_;  // of the acceptor, until it has ended
};

}  // namespace holdfast::test
