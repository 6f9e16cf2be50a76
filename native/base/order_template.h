// Where in the template of an order (files/messages.hpp), which is what follows root and path, lie
// those terms that the shim heeds itself when it opens copies by name. It sends the rest as it is.
// Plain C, numbers are little-endian; a test compares this with what is encoded.
#pragma once

enum {
    HF_ORDER_COPIES_AT = 1,    // u16
    HF_ORDER_VALIDATE_AT = 3,  // u8
    HF_ORDER_LARGEST_AT = 4,   // u64
    HF_ORDER_BYTES = 22,
};
