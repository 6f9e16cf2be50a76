// Mutated frames of every operation against everything that parses them: the sanitizers watch, and
// what a parser accepts must be within the limits and encode to what was read.
// usage: frame_fuzz [ROUNDS] [SEED]
#include <cstdio>
#include <cstdlib>

#include "fuzz.hpp"
#include "rpc/wire.hpp"

using namespace holdfast;

namespace {

void expect(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "frame_fuzz: %s\n", what);
    std::abort();
}

// Gives 1 if the meta was accepted.
template <typename Message>
int parse(const std::string& meta) {
    auto message = Message::decode(meta);
    if (!message.ok()) {
        expect(!message.status().message().empty(), "a refusal without a reason");
        return 0;
    }
    auto again = Message::decode(message->encode());
    expect(again.ok() && again->encode() == message->encode(), "not read back as written");
    return 1;
}

int parse_all(const std::string& meta) {
    return parse<PutMessage>(meta) + parse<HandMessage>(meta) + parse<GetMessage>(meta) +
           parse<DropMessage>(meta) + parse<KeyMessage>(meta) + parse<ListMessage>(meta) +
           parse<CallMessage>(meta) + parse<WaitMessage>(meta) + parse<ProbeMessage>(meta) +
           parse<ProbeReply>(meta) + parse<ObjectInfo>(meta) + parse<ListReply>(meta) +
           parse<FileOrder>(meta) + parse<Attributes>(meta) + parse<InvalidateMessage>(meta) +
           parse<TreeOrder>(meta) + parse<TreeReply>(meta) + parse<BoxesMessage>(meta) +
           parse<BoxesReply>(meta);
}

}  // namespace

int main(int argc, char** argv) {
    long rounds = argc > 1 ? std::atol(argv[1]) : 1'000'000;
    std::mt19937_64 random(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
    auto seeds = test::samples();
    long headers = 0, metas = 0;
    for (long round = 0; round < rounds; ++round) {
        const auto& seed = seeds[static_cast<std::size_t>(round) % seeds.size()];
        std::string meta = seed.meta, head(kHeaderBytes, '\0');
        Header header;
        header.op = seed.op;
        header.body_bytes = seed.body.size();
        encode_header(header, meta, head.data());
        if (round % 2 == 0) test::mutate(meta, random);
        if (round % 3 == 0) test::mutate(head, random);
        head.resize(kHeaderBytes, '\0');
        if (round % 5 != 0) test::mend_checksum(head, meta);

        bool whole = head_is_whole(head.data(), meta);
        if (auto decoded = decode_header(head.data()); decoded.ok() && whole) {
            ++headers;
            expect(decoded->meta_bytes <= kMaxMeta && decoded->body_bytes <= kMaxBody, "a limit");
            std::string again(kHeaderBytes, '\0');
            std::string stated(decoded->meta_bytes, 'm');
            encode_header(*decoded, stated, again.data());
            expect(again.compare(0, 40, head, 0, 40) == 0, "a header not read back as written");
        }
        metas += parse_all(meta);
    }
    std::printf("frame_fuzz: %ld frames, %ld headers and %ld metas accepted\n", rounds, headers,
                metas);
    return headers > rounds / 4 && metas > rounds / 4 ? 0 : 1;  // else it tested little
}
