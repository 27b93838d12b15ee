// How many bytes of a page are control characters, and how many begin a tag, one that opens an element, and one that may
// open a table; census.py says which, and counts the same.
#include <stdint.h>
#include <string.h>

enum { WIDTH = 16, BLOCKS = 255, BEHIND = 2 };  // so many blocks that a byte holds what is counted at each place of them
typedef uint8_t Bytes __attribute__((vector_size(WIDTH)));

// Counts in whole blocks, and looks at BEHIND bytes behind them; a comparison gives 255 for true, that is -1.
static void count(const uint8_t *s, int64_t blocks, int64_t *out) {
    Bytes controls = {0}, tags = {0}, starts = {0}, tables = {0}, c, next, third;
    for (int64_t k = 0; k < blocks; k++) {
        memcpy(&c, s + k * WIDTH, WIDTH);
        memcpy(&next, s + k * WIDTH + 1, WIDTH);
        memcpy(&third, s + k * WIDTH + 2, WIDTH);
        next |= 32;
        third |= 32;
        Bytes spaces = (Bytes)((c == '\t') | (c == '\n') | (c == '\f') | (c == '\r') | (c == 27));
        Bytes opens = (Bytes)(c == '<');
        controls -= ((Bytes)(c < 32) & ~spaces) | (Bytes)(c == 127);
        tags -= opens;
        starts -= opens & (Bytes)((Bytes)(next - 'a') < 26);
        tables -= opens & (Bytes)(next == 't') & (Bytes)(third == 'a');
    }
    for (int k = 0; k < WIDTH; k++) {
        out[0] += controls[k];
        out[1] += tags[k];
        out[2] += starts[k];
        out[3] += tables[k];
    }
}

void census(const uint8_t *s, int64_t length, int64_t *out) {
    uint8_t last[2 * WIDTH + BEHIND];
    out[0] = out[1] = out[2] = out[3] = 0;
    for (; length >= WIDTH * BLOCKS + BEHIND; s += WIDTH * BLOCKS, length -= WIDTH * BLOCKS) count(s, BLOCKS, out);
    const int64_t blocks = length < BEHIND ? 0 : (length - BEHIND) / WIDTH;
    count(s, blocks, out);
    memset(last, ' ', sizeof last);
    memcpy(last, s + blocks * WIDTH, (size_t)(length - blocks * WIDTH));
    count(last, 2, out);
}
