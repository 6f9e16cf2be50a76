// Whom readers ask for a file, by policy.
#include "files/owner_walk.hpp"

#include "support.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

const std::vector<std::string> kNodes{"a", "b", "c", "d", "e", "f"};
const std::string kName = file_prefix("/data/file");
constexpr TimePoint kNow{1000s};

// All nodes live but the lost; members have the numbers of their letters.
PlacementPtr without(const std::vector<std::string>& lost) {
    std::vector<std::string> live;
    std::vector<std::uint64_t> numbers;
    for (auto& node : kNodes) {
        if (std::ranges::find(lost, node) != lost.end()) continue;
        live.push_back(node);
        numbers.push_back(static_cast<std::uint64_t>(node[0]));
    }
    Placement placement{.ring = Ring(live, 16), .numbers = numbers, .addresses = {}};
    if (!lost.empty()) placement.with_lost = Ring(kNodes, 16);
    return std::make_shared<const Placement>(std::move(placement));
}

// The nodes in the order of the ring.
std::vector<std::string> order() {
    std::vector<std::string> names;
    for (auto node : Ring(kNodes, 16).owners(kName, kNodes.size())) names.push_back(kNodes[node]);
    return names;
}

// Who is asked, if each of them fails.
std::vector<std::string> asked(OwnerWalk& walk, const Trust& trust) {
    std::vector<std::string> names;
    while (auto node = walk.next(trust, kNow)) {
        CHECK(walk.next(trust, kNow) == node);  // until it failed
        CHECK(walk.stands_in() == !names.empty());
        names.push_back(walk.placement().ring.nodes()[*node]);
        CHECK_FALSE(walk.aborts());
        walk.failed();
    }
    return names;
}

}  // namespace

TEST_CASE("the next owners take over under recache, and nobody under the other policies") {
    auto owners = order();
    std::vector<std::string> first{owners[0]}, four(owners.begin(), owners.begin() + 4);
    for (auto policy : {OnFailure::Abort, OnFailure::Redirect, OnFailure::Recache}) {
        OwnerWalk walk(without({}), kName, policy);
        CHECK(asked(walk, Trust()) == (policy == OnFailure::Recache ? four : first));
        CHECK(walk.aborts() == (policy == OnFailure::Abort));
        // Those whose death all know of are like those who fail.
        OwnerWalk later(without({owners[0], owners[2]}), kName, policy);
        std::vector<std::string> left{owners[1], owners[3], owners[4], owners[5]};
        CHECK(asked(later, Trust()) ==
              (policy == OnFailure::Recache ? left : std::vector<std::string>{}));
        CHECK(later.aborts() == (policy == OnFailure::Abort));
        if (later.aborts()) CHECK(later.reason().starts_with(owners[0] + " owns the file"));
        // And the death of others is nothing to this file.
        OwnerWalk other(without({owners[1]}), kName, policy);
        CHECK(other.next(Trust(), kNow));
        CHECK_FALSE(other.aborts());
    }
}

TEST_CASE("one that is left alone is passed over as if it failed, until its time is over") {
    auto owners = order();
    Trust trust({.strikes = 1, .avoid = 5s, .file_deadline = 1s, .deadline = 2s});
    trust.failed(static_cast<std::uint64_t>(owners[0][0]), false, kNow - 1s);
    for (auto policy : {OnFailure::Abort, OnFailure::Redirect, OnFailure::Recache}) {
        OwnerWalk walk(without({}), kName, policy);
        auto node = walk.next(trust, kNow);
        CHECK(node.has_value() == (policy == OnFailure::Recache));
        if (node) CHECK(kNodes[*node] == owners[1]);
        CHECK(walk.stands_in() == true);
        CHECK(walk.aborts() == (policy == OnFailure::Abort));
        OwnerWalk later(without({}), kName, policy);
        node = later.next(trust, kNow + 4s);
        REQUIRE(node);
        CHECK(kNodes[*node] == owners[0]);
        CHECK_FALSE(later.stands_in());
    }
}

TEST_CASE("where nobody owns anything the shared file system is read") {
    auto nobody = std::make_shared<const Placement>(Placement{Ring({}, 16), {}, {}});
    for (auto policy : {OnFailure::Abort, OnFailure::Redirect, OnFailure::Recache}) {
        OwnerWalk walk(nobody, kName, policy);
        CHECK_FALSE(walk.next(Trust(), kNow));
        walk.failed();
        CHECK_FALSE(walk.aborts());
    }
}
