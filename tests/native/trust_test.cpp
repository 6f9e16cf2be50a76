// Whom an agent asks for files after failures. The clock is the test's.
#include "files/trust.hpp"

#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

constexpr TrustSettings kSettings{
    .strikes = 3, .avoid = 5s, .file_deadline = 500ms, .deadline = 2s};
const TimePoint kStart{1000s};

Trust fresh() {
    Trust trust;
    trust.set(kSettings);
    return trust;
}

}  // namespace

TEST_CASE("a broken connection counts at once, and for a while") {
    Trust trust = fresh();
    CHECK(trust.asks(1, kStart));
    trust.broke(1, kStart);
    CHECK_FALSE(trust.asks(1, kStart));
    CHECK_FALSE(trust.asks(1, kStart + 5s - 1ns));
    CHECK(trust.asks(1, kStart + 5s));
    CHECK(trust.asks(2, kStart));  // the others are asked
}

TEST_CASE("missed deadlines count when there are enough in a row") {
    Trust trust = fresh();
    trust.missed(1, kStart);
    trust.missed(1, kStart + 1s);
    CHECK(trust.asks(1, kStart + 1s));
    trust.answered(1, 10ms);
    trust.missed(1, kStart + 2s);
    trust.missed(1, kStart + 3s);
    CHECK(trust.asks(1, kStart + 3s));
    trust.missed(1, kStart + 4s);
    CHECK_FALSE(trust.asks(1, kStart + 4s));
    CHECK(trust.asks(1, kStart + 9s));
}

TEST_CASE("whoever was left alone is left alone again at the first failure") {
    Trust trust = fresh();
    for (int i = 0; i < 3; ++i) trust.missed(1, kStart);
    trust.broke(2, kStart);
    for (std::uint64_t member : {1, 2}) {
        CHECK(trust.asks(member, kStart + 5s));
        trust.missed(member, kStart + 6s);
        CHECK_FALSE(trust.asks(member, kStart + 10s));
        CHECK(trust.asks(member, kStart + 11s));
        trust.answered(member, 1ms);  // and starts anew when it answers
        trust.missed(member, kStart + 12s);
        CHECK(trust.asks(member, kStart + 12s));
    }
}

TEST_CASE("an answer brings a member back at once") {
    Trust trust = fresh();
    trust.broke(1, kStart);
    trust.answered(1, 1ms);
    CHECK(trust.asks(1, kStart));
}

TEST_CASE("the deadline follows the slowest answer of a member, within its limits") {
    Trust trust = fresh();
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
    trust.missed(2, kStart);
    CHECK_FALSE(trust.asks(2, kStart));
}
