// Features of texts: their words, pairs and stems as numbers, and the sums of the weights of these.
//
// features.py says what a feature is, and computes the same in Python. Text is valid UTF-8. Everything is integers:
// where weights are summed a feature counts once for a text, kept by a bit for each that may be.
#include <stdint.h>
#include <string.h>

enum { SPACE, LETTER, NUMBER, IDEOGRAPH, EXTEND, JOINER, THOUSANDS, MARK };
enum { CLASS = 7, STEM = 5, LOUD = 3, FOLDED = 0x530, SHOUT = 0x110000 };

static uint32_t crc_table[256];

// Every thread writes the same, so that it does not matter how often, or how many at once, it is done.
static void make_table(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++) c = c & 1 ? 0xedb88320u ^ (c >> 1) : c >> 1;
        crc_table[i] = c;
    }
}

static inline uint32_t step(uint32_t crc, uint8_t byte) { return crc_table[(crc ^ byte) & 255] ^ (crc >> 8); }

static inline uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ULL;
    return (x ^ (x >> 32)) * 0xd6e8feb86659fd93ULL;
}

static int decode(const uint8_t *s, uint32_t *code) {
    if (s[0] < 0x80) { *code = s[0]; return 1; }
    if (s[0] < 0xe0) { *code = (s[0] & 31u) << 6 | (s[1] & 63u); return 2; }
    if (s[0] < 0xf0) { *code = (s[0] & 15u) << 12 | (s[1] & 63u) << 6 | (s[2] & 63u); return 3; }
    *code = (s[0] & 7u) << 18 | (s[1] & 63u) << 12 | (s[2] & 63u) << 6 | (s[3] & 63u);
    return 4;
}

typedef struct {
    const int16_t *weights;
    int bits, labels;
    uint8_t *seen;
    int64_t *totals, *count;
} Sum;

enum { MAYBE = 1 << 15 };  // bits that tell of most names that they are not in the table: it is large, they are few

typedef struct {
    const uint64_t *table;
    const int64_t *numbers;
    uint64_t mask;
    uint8_t *found;
    uint64_t maybe[MAYBE / 64];
} Search;

static inline void add(void *state, uint64_t value) {
    Sum *t = state;
    uint64_t id = mix(value) >> (64 - t->bits);
    uint8_t bit = (uint8_t)(1u << (id & 7));
    if (t->seen[id >> 3] & bit) return;
    t->seen[id >> 3] |= bit;
    ++*t->count;
    const int16_t *row = t->weights + id * (uint64_t)t->labels;
    for (int label = 0; label < t->labels; label++) t->totals[label] += row[label];
}

static inline void search(void *state, uint64_t value) {
    Search *t = state;
    uint64_t name = mix(value), bit = name >> 49;
    if (!(t->maybe[bit >> 6] >> (bit & 63) & 1)) return;
    for (uint64_t at = name & t->mask; t->table[at]; at = (at + 1) & t->mask)
        if (t->table[at] == name) { t->found[t->numbers[at]] = 1; return; }
}

// Give every feature of a text to `take`, which the compiler puts in its place.
static inline __attribute__((always_inline)) void walk(const uint8_t *s, const uint8_t *end, const uint8_t *classes,
                                                        const uint32_t *folding, void (*take)(void *, uint64_t),
                                                        void *state) {
    uint64_t last = 0;  // the word before, and whether there is one
    int follows = 0;
    uint8_t small[128];  // of each character of ASCII that is in words: as it is counted
    for (uint32_t c = 0; c < 128; c++) {
        int kind = classes[c] & CLASS;
        small[c] = kind == LETTER || kind == NUMBER || kind == EXTEND ? (uint8_t)folding[c] : 0;
    }
    while (s < end) {
        uint32_t crc = 0xffffffffu, stem = 0, length = 0, capitals = 0;
        while (s < end) {
            if (*s < 0x80 && small[*s]) {
                capitals += small[*s] > *s;
                crc = step(crc, small[*s++]);
                if (++length == STEM) stem = crc;
                continue;
            }
            uint32_t code;
            int width = decode(s, &code), kind = classes[code] & CLASS;
            if (kind == IDEOGRAPH ? length > 0 : kind != LETTER && kind != NUMBER && kind != EXTEND) {
                if (length) break;
                if (kind == MARK || kind == JOINER || kind == THOUSANDS) take(state, code * 0xd1b54a32d192ed03ULL);
                s += width;
                continue;
            }
            if (code < FOLDED) {
                capitals += folding[code] > code;
                code = folding[code];
            }
            if (code < 0x80) crc = step(crc, (uint8_t)code);
            else if (code < FOLDED) crc = step(step(crc, (uint8_t)(0xc0 | code >> 6)), (uint8_t)(0x80 | (code & 63)));
            else for (int i = 0; i < width; i++) crc = step(crc, s[i]);
            s += width;
            if (++length == STEM) stem = crc;
            if (kind == IDEOGRAPH) break;
        }
        if (!length) break;
        uint64_t word = crc ^ 0xffffffffu;
        take(state, word * 0x9e3779b97f4a7c15ULL);
        if (length > STEM) take(state, (uint64_t)(stem ^ 0xffffffffu) * 0xc2b2ae3d27d4eb4fULL);
        if (length >= LOUD && capitals == length) take(state, SHOUT * 0xd1b54a32d192ed03ULL);
        if (follows) take(state, last * 0x165667b19e3779f9ULL + word);
        last = word;
        follows = 1;
    }
}

void sums(const uint8_t *data, const int64_t *offsets, int64_t texts, const uint8_t *classes, const uint32_t *folding,
          const int16_t *weights, int32_t bits, int32_t labels, uint8_t *seen, int64_t *totals, int64_t *counts) {
    make_table();
    for (int64_t at = 0; at < texts; at++) {
        Sum state = {weights, bits, labels, seen, totals + at * labels, counts + at};
        memset(seen, 0, (size_t)1 << (bits - 3));
        walk(data + offsets[at], data + offsets[at + 1], classes, folding, add, &state);
    }
}

// found[texts][names]: which of the names in the table each text has a feature of; `numbers`: which those are.
void having(const uint8_t *data, const int64_t *offsets, int64_t texts, const uint8_t *classes, const uint32_t *folding,
            const uint64_t *table, const int64_t *numbers, int64_t mask, int64_t names, uint8_t *found) {
    make_table();
    Search state = {table, numbers, (uint64_t)mask, found, {0}};
    for (int64_t k = 0; k <= mask; k++)
        if (table[k]) state.maybe[table[k] >> 55] |= 1ULL << (table[k] >> 49 & 63);
    for (int64_t at = 0; at < texts; at++) {
        state.found = found + at * names;
        walk(data + offsets[at], data + offsets[at + 1], classes, folding, search, &state);
    }
}
