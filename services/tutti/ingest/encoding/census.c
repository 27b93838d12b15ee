// How many bytes of a page are control characters; census.py says which, and counts the same.
#include <stdint.h>
#include <string.h>

enum { WIDTH = 16, BLOCKS = 255 };  // so many blocks that a byte holds what is counted at each place of them
typedef uint8_t Bytes __attribute__((vector_size(WIDTH)));

// Counts in whole blocks; a comparison gives 255 for true, that is -1.
static int64_t count(const uint8_t *s, int64_t blocks) {
    Bytes controls = {0}, c;
    int64_t sum = 0;
    for (int64_t k = 0; k < blocks; k++) {
        memcpy(&c, s + k * WIDTH, WIDTH);
        Bytes spaces = (Bytes)((c == '\t') | (c == '\n') | (c == '\f') | (c == '\r') | (c == 27));
        controls -= ((Bytes)(c < 32) & ~spaces) | (Bytes)(c == 127);
    }
    for (int k = 0; k < WIDTH; k++) sum += controls[k];
    return sum;
}

void census(const uint8_t *s, int64_t length, int64_t *out) {
    uint8_t last[WIDTH];
    *out = 0;
    for (; length >= WIDTH * BLOCKS; s += WIDTH * BLOCKS, length -= WIDTH * BLOCKS) *out += count(s, BLOCKS);
    const int64_t blocks = length / WIDTH;
    *out += count(s, blocks);
    memset(last, ' ', sizeof last);
    memcpy(last, s + blocks * WIDTH, (size_t)(length - blocks * WIDTH));
    *out += count(last, 1);
}
