// What stands in the log, and how much of it.
#include "base/log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "files/messages.hpp"
#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

// What is written to standard error meanwhile.
std::string logged(const std::function<void()>& work) {
    TempDir place;
    Fd file(::open((place / "log").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    Fd before(::dup(STDERR_FILENO));
    REQUIRE(::dup2(file.get(), STDERR_FILENO) == STDERR_FILENO);
    work();
    REQUIRE(::dup2(before.get(), STDERR_FILENO) == STDERR_FILENO);
    return all_of(file);
}

}  // namespace

TEST_CASE("keys and paths stand readably in the log, each line in one") {
    std::string key = file_key("/data/größe\n", {1, 0xff, 10, 4});
    std::string lines = logged([&] { log_warning("read: the key '" + key + "'"); });
    CHECK(std::ranges::count(lines, '\n') == 1);
    CHECK(
        std::ranges::none_of(lines, [](char one) { return one >= 0 && one < ' ' && one != '\n'; }));
    CHECK(lines.find("'@file/data/größe\\x0a\\x00\\x01") != std::string::npos);
    CHECK(lines.find("\\xff") != std::string::npos);
    CHECK(printable("\xc3\x28 \xed\xbf \xe2\x82\xac \xf0") ==
          "\\xc3( \\xed\\xbf \xe2\x82\xac \\xf0");
}

TEST_CASE("a flood of one kind is cut, whatever the lines are about, and hides no other") {
    std::string lines = logged([] {
        for (int i = 0; i < 1000; ++i) log_warning("flooded: number " + std::to_string(i));
        log_warning("something else: happened");
    });
    CHECK(std::ranges::count(lines, '\n') == 11);
    CHECK(lines.find("something else: happened") != std::string::npos);
}
