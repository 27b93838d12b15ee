// How many bytes of a page are control characters, and how many begin a tag; census.py says which, and counts the same.
#include <stdint.h>
#include <string.h>

enum { WIDTH = 16, BLOCKS = 255 };  // so many blocks that a byte holds what is counted at each place of them
typedef uint8_t Bytes __attribute__((vector_size(WIDTH)));

// Counts in whole blocks; a comparison gives 255 for true, that is -1.
static void count(const uint8_t *s, int64_t blocks, int64_t *out) {
    Bytes controls = {0}, tags = {0}, c;
    for (int64_t k = 0; k < blocks; k++) {
        memcpy(&c, s + k * WIDTH, WIDTH);
        Bytes spaces = (Bytes)((c == '\t') | (c == '\n') | (c == '\f') | (c == '\r') | (c == 27));
        controls -= ((Bytes)(c < 32) & ~spaces) | (Bytes)(c == 127);
        tags -= (Bytes)(c == '<');
    }
    for (int k = 0; k < WIDTH; k++) {
        out[0] += controls[k];
        out[1] += tags[k];
    }
}

void census(const uint8_t *s, int64_t length, int64_t *out) {
    uint8_t last[WIDTH];
    out[0] = out[1] = 0;
    for (; length >= WIDTH * BLOCKS; s += WIDTH * BLOCKS, length -= WIDTH * BLOCKS) count(s, BLOCKS, out);
    count(s, length / WIDTH, out);
    memset(last, ' ', WIDTH);
    memcpy(last, s + length / WIDTH * WIDTH, (size_t)(length % WIDTH));
    count(last, 1, out);
}
