// Fault points: each test runs in a child, for what is tested ends it.
#include "base/fault.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

// Runs `body` in a child; gives how the child ended or stopped, and ends it.
int status_of_child(const std::function<void()>& body) {
    pid_t child = ::fork();
    if (child == 0) {
        body();
        ::_exit(0);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, WUNTRACED) == child);
    if (WIFSTOPPED(status)) {
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
    }
    return status;
}

}  // namespace

TEST_CASE("a fault goes off at the pass it was armed for, and no other") {
    int killed = status_of_child([] {
        if (!fault::arm("chain", "kill", 3).ok()) ::_exit(1);
        for (int i = 0; i < 5; ++i) fault_point(Stage::Put);
        fault_point(Stage::Chain);
        fault_point(Stage::Chain);
        fault_point(Stage::Chain);
    });
    CHECK(WIFSIGNALED(killed));
    CHECK(WTERMSIG(killed) == SIGKILL);

    int early = status_of_child([] {
        if (!fault::arm("chain", "kill", 3).ok()) ::_exit(1);
        fault_point(Stage::Chain);
        fault_point(Stage::Chain);
    });
    CHECK(WIFEXITED(early));
    CHECK(WEXITSTATUS(early) == 0);

    int stopped = status_of_child([] {
        if (!fault::arm("drop", "stop", 1).ok()) ::_exit(1);
        fault_point(Stage::Drop);
    });
    CHECK(WIFSTOPPED(stopped));
    CHECK(WSTOPSIG(stopped) == SIGSTOP);
}

TEST_CASE("what is disarmed or armed anew does not go off") {
    int status = status_of_child([] {
        bool ok = fault::arm("get", "kill", 1).ok() && fault::arm("get", "nothing", 0).ok() &&
                  fault::arm("pull", "kill", 1).ok() && fault::arm("pull", "kill", 2).ok();
        fault_point(Stage::Get);
        fault_point(Stage::Pull);
        ok = ok && fault::arm("pull", "nothing", 0).ok() && fault::armed == 0;
        fault_point(Stage::Pull);
        ::_exit(ok ? 0 : 1);
    });
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("stages and actions that there are not are refused") {
    CHECK(fault::arm("puts", "kill", 1).code() == Code::BadInput);
    CHECK(fault::arm("put", "hurt", 1).code() == Code::BadInput);
    CHECK(fault::arm("put", "kill", 0).code() == Code::BadInput);
    CHECK(fault::armed == 0);
}
