// Whom an agent asks for files after failures. The clock is the test's.
#include "files/trust.hpp"

#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

constexpr TrustSettings kSettings{
    .strikes = 3, .avoid = 5s, .file_deadline = 500ms, .deadline = 2s};
const TimePoint kStart{1000s};
constexpr bool kLate = true, kBroke = false;

}  // namespace

TEST_CASE("a broken connection counts at once, and for a while") {
    Trust trust(kSettings);
    CHECK(trust.trusts(1, kStart));
    trust.failed(1, kBroke, kStart);
    CHECK_FALSE(trust.trusts(1, kStart));
    CHECK_FALSE(trust.trusts(1, kStart + 5s - 1ns));
    CHECK(trust.trusts(1, kStart + 5s));
    CHECK(trust.trusts(2, kStart));  // the others are asked
}

TEST_CASE("missed deadlines count when there are enough in a row") {
    Trust trust(kSettings);
    trust.failed(1, kLate, kStart);
    trust.failed(1, kLate, kStart + 1s);
    CHECK(trust.trusts(1, kStart + 1s));
    trust.answered(1, 10ms);
    trust.failed(1, kLate, kStart + 2s);
    trust.failed(1, kLate, kStart + 3s);
    CHECK(trust.trusts(1, kStart + 3s));
    trust.failed(1, kLate, kStart + 4s);
    CHECK_FALSE(trust.trusts(1, kStart + 4s));
    CHECK(trust.trusts(1, kStart + 9s));
}

TEST_CASE("whoever was left alone is left alone again at the first failure") {
    Trust trust(kSettings);
    for (int i = 0; i < 3; ++i) trust.failed(1, kLate, kStart);
    trust.failed(2, kBroke, kStart);
    for (std::uint64_t member : {1, 2}) {
        CHECK(trust.trusts(member, kStart + 5s));
        trust.failed(member, kLate, kStart + 6s);
        CHECK_FALSE(trust.trusts(member, kStart + 10s));
        CHECK(trust.trusts(member, kStart + 11s));
        trust.answered(member, 1ms);  // and starts anew when it answers
        trust.failed(member, kLate, kStart + 12s);
        CHECK(trust.trusts(member, kStart + 12s));
    }
}

TEST_CASE("an answer brings a member back at once") {
    Trust trust(kSettings);
    trust.failed(1, kBroke, kStart);
    trust.answered(1, 1ms);
    CHECK(trust.trusts(1, kStart));
}

TEST_CASE("the deadline follows the slowest answer of a member, within its limits") {
    Trust trust(kSettings);
    CHECK(trust.deadline(1) == 500ms);
    trust.answered(1, 100ms);
    CHECK(trust.deadline(1) == 500ms);
    trust.answered(1, 200ms);
    CHECK(trust.deadline(1) == 800ms);
    trust.answered(1, 1ms);
    CHECK(trust.deadline(1) == 800ms);
    trust.answered(1, 700ms);
    CHECK(trust.deadline(1) == 2s);
    CHECK(trust.deadline(2) == 500ms);
    trust.set({.strikes = 1, .avoid = 1s, .file_deadline = 3s, .deadline = 1s});
    CHECK(trust.deadline(2) == 1s);  // the longest wait holds in any case
    trust.failed(2, kLate, kStart);
    CHECK_FALSE(trust.trusts(2, kStart));
}
