// Times lookups of the first owner on a ring; prints the median of nanoseconds per lookup.
//
// usage: ring_lookup NODES VIRTUAL_NODES
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/sockets.h"
#include "placement/ring.hpp"

int main(int count, char** arguments) {
    if (count != 3) {
        std::fputs("usage: ring_lookup NODES VIRTUAL_NODES\n", stderr);
        return 2;
    }
    std::vector<std::string> names;
    for (long i = 0; i < number(arguments[1], 1); ++i) names.push_back("node-" + std::to_string(i));
    holdfast::Ring ring(names, static_cast<std::uint32_t>(number(arguments[2], 1)));
    std::vector<std::string> keys;
    for (int i = 0; i < 100'000; ++i) keys.push_back("dataset/sample-" + std::to_string(i));
    std::vector<double> rounds;
    std::uint64_t sum = 0;  // printed, so that no lookup is left out
    for (int round = 0; round < 21; ++round) {
        auto before = std::chrono::steady_clock::now();
        for (const std::string& key : keys) {
            std::uint32_t owner[1];
            ring.owners(key, owner);
            sum += owner[0];
        }
        std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - before;
        rounds.push_back(took.count() / static_cast<double>(keys.size()));
    }
    std::nth_element(rounds.begin(), rounds.begin() + 10, rounds.end());
    std::printf("{\"nanoseconds\": %.1f, \"sum\": %llu}\n", rounds[10],
                static_cast<unsigned long long>(sum));
}
