#include "base/crc32c.hpp"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace holdfast {
namespace {

constexpr std::uint32_t kPolynomial = 0x82F63B78;  // reflected: bit 31 is x^0

// a * b modulo the polynomial.
constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
    std::uint32_t product = 0;
    for (std::uint32_t bit = 0x80000000; bit != 0; bit >>= 1) {
        if (a & bit) product ^= b;
        b = (b >> 1) ^ (b & 1 ? kPolynomial : 0);
    }
    return product;
}

// kPowers[i] = x^(8 * 2^i): what appending 2^i zero bytes multiplies a checksum by.
constexpr auto kPowers = [] {
    std::array<std::uint32_t, 64> powers{};
    std::uint32_t power = 0x00800000;  // x^8
    for (auto& entry : powers) {
        entry = power;
        power = multiply(power, power);
    }
    return powers;
}();

constexpr std::uint32_t zero_bytes_factor(std::uint64_t count) {
    std::uint32_t factor = 0x80000000;  // x^0
    for (unsigned i = 0; count != 0; ++i, count >>= 1)
        if (count & 1) factor = multiply(factor, kPowers[i]);
    return factor;
}

using ByteTable = std::array<std::array<std::uint32_t, 256>, 4>;

// Multiplication by a constant as four look-ups.
constexpr ByteTable factor_table(std::uint32_t factor) {
    ByteTable table{};
    for (unsigned byte = 0; byte < 4; ++byte)
        for (std::uint32_t value = 0; value < 256; ++value)
            table[byte][value] = multiply(factor, value << (8 * byte));
    return table;
}

[[maybe_unused]] std::uint32_t look_up(const ByteTable& table, std::uint32_t value) {
    return table[0][value & 255] ^ table[1][value >> 8 & 255] ^ table[2][value >> 16 & 255] ^
           table[3][value >> 24];
}

// Processors without the instruction: one table, a byte at a time.
std::uint32_t portable(std::uint32_t state, const unsigned char* data, std::size_t size) {
    static constexpr auto table = [] {
        std::array<std::uint32_t, 256> entries{};
        for (std::uint32_t byte = 0; byte < 256; ++byte) {
            std::uint32_t value = byte;
            for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value & 1 ? kPolynomial : 0);
            entries[byte] = value;
        }
        return entries;
    }();
    for (; size != 0; --size) state = (state >> 8) ^ table[(state ^ *data++) & 255];
    return state;
}

#if defined(__x86_64__)

std::uint64_t load(const unsigned char* data) {
    std::uint64_t value;
    std::memcpy(&value, data, sizeof value);
    return value;
}

// The instruction takes three cycles but starts every cycle: three streams side by side keep it
// busy; their states are then joined.
template <std::size_t kStream>
__attribute__((target("sse4.2"))) std::uint32_t three_streams(std::uint32_t state,
                                                              const unsigned char*& data,
                                                              std::size_t& size) {
    static constexpr ByteTable table = factor_table(zero_bytes_factor(kStream));
    for (; size >= 3 * kStream; size -= 3 * kStream, data += 3 * kStream) {
        std::uint64_t a = state, b = 0, c = 0;
        for (std::size_t i = 0; i < kStream; i += 8) {
            a = _mm_crc32_u64(a, load(data + i));
            b = _mm_crc32_u64(b, load(data + kStream + i));
            c = _mm_crc32_u64(c, load(data + 2 * kStream + i));
        }
        state = look_up(table, static_cast<std::uint32_t>(a)) ^ static_cast<std::uint32_t>(b);
        state = look_up(table, state) ^ static_cast<std::uint32_t>(c);
    }
    return state;
}

// x^n modulo the polynomial.
constexpr std::uint32_t power(std::uint64_t n) {
    std::uint32_t result = 0x80000000, square = 0x40000000;  // x^0, x^1
    for (; n != 0; n >>= 1, square = multiply(square, square))
        if (n & 1) result = multiply(result, square);
    return result;
}

// 256 bytes at a time: each 128 bits a = high * x^64 + low are moved that far ahead, on to bytes
// that they are congruent with there, by two carry-less products. (The product of two reversed
// polynomials comes out multiplied by x, hence the exponents.) What is left has the same remainder
// as everything that was read.
__attribute__((target("avx512f,vpclmulqdq,sse4.2"))) std::uint32_t folded(
    std::uint32_t state, const unsigned char*& data, std::size_t& size) {
    constexpr std::size_t kStep = 256;
    static constexpr auto kHigh =
        static_cast<long long>(std::uint64_t{power(8 * kStep + 63)} << 32);
    static constexpr auto kLow = static_cast<long long>(std::uint64_t{power(8 * kStep - 1)} << 32);
    const __m512i ahead = _mm512_set4_epi64(kLow, kHigh, kLow, kHigh);
    __m512i part[4];
    for (int i = 0; i < 4; ++i) part[i] = _mm512_loadu_si512(data + 64 * i);
    part[0] = _mm512_xor_si512(part[0],
                               _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(state))));
    for (data += kStep, size -= kStep; size >= kStep; data += kStep, size -= kStep)
        for (int i = 0; i < 4; ++i) {
            __m512i high = _mm512_clmulepi64_epi128(part[i], ahead, 0x00);
            __m512i low = _mm512_clmulepi64_epi128(part[i], ahead, 0x11);
            part[i] = _mm512_ternarylogic_epi64(high, low, _mm512_loadu_si512(data + 64 * i), 0x96);
        }
    alignas(64) unsigned char rest[kStep];
    for (int i = 0; i < 4; ++i) _mm512_store_si512(rest + 64 * i, part[i]);
    std::uint64_t remainder = 0;
    for (std::size_t i = 0; i < kStep; i += 8) remainder = _mm_crc32_u64(remainder, load(rest + i));
    return static_cast<std::uint32_t>(remainder);
}

__attribute__((target("sse4.2"))) std::uint32_t hardware(std::uint32_t state,
                                                         const unsigned char* data,
                                                         std::size_t size) {
    static const bool wide =
        __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
    if (wide && size >= 1024) state = folded(state, data, size);
    state = three_streams<4096>(state, data, size);
    state = three_streams<256>(state, data, size);
    for (; size >= 8; size -= 8, data += 8)
        state = static_cast<std::uint32_t>(_mm_crc32_u64(state, load(data)));
    for (; size != 0; --size) state = _mm_crc32_u8(state, *data++);
    return state;
}

#endif

}  // namespace

std::uint32_t crc32c(std::uint32_t crc, const void* data, std::size_t size) {
    const auto* bytes = static_cast<const unsigned char*>(data);
#if defined(__x86_64__)
    static const bool fast = __builtin_cpu_supports("sse4.2");
    if (fast) return ~hardware(~crc, bytes, size);
#endif
    return ~portable(~crc, bytes, size);
}

std::uint32_t crc32c_join(std::uint32_t first, std::uint32_t second, std::uint64_t second_size) {
    return multiply(zero_bytes_factor(second_size), first) ^ second;
}

}  // namespace holdfast
