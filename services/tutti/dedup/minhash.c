// Words, shingles and MinHash of texts in one pass over their characters, and the overlap of sorted sets of shingles.
//
// shingles.py, minhash.py, grams.py and verification.py say what each number means, and compute the same in numpy. Text is valid
// UTF-8. Nothing is allocated here: memory is the caller's and does not depend on the text.
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__has_attribute)
#if __has_attribute(target_clones)
#define VECTORS __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#endif
#ifndef VECTORS
#define VECTORS
#endif

enum { WORDS = 5, BANDS = 20, ROWS = 6, PERMUTATIONS = BANDS * ROWS, TILE = 40, BLOCK = 256 };
#define ODD 0x9e3779b97f4a7c15ULL
#define ALONE 0x80000000u
#define LEFT_OUT 0x40000000u

// The finalizer of SplitMix64 (Steele, Lea and Flood 2014).
static inline uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

// The code point of the character at *at, which moves behind it.
static inline uint32_t decoded(const uint8_t **at) {
    const uint8_t *s = *at;
    uint32_t code = *s;
    if (code < 0x80) { *at = s + 1; return code; }
    if (code < 0xe0) { *at = s + 2; return (code & 31) << 6 | (s[1] & 63u); }
    if (code < 0xf0) { *at = s + 3; return (code & 15) << 12 | (s[1] & 63u) << 6 | (s[2] & 63u); }
    *at = s + 4;
    return (code & 7) << 18 | (s[1] & 63u) << 12 | (s[2] & 63u) << 6 | (s[3] & 63u);
}

typedef struct {
    const uint8_t *at, *end;
    const uint32_t *folding;
    uint64_t word, recent[WORDS], rolling, leaving;  // leaving: ODD to the power of WORDS
    int64_t words;
    int inside, slot, ended;
} Reader;

static Reader reader(const uint8_t *begin, const uint8_t *end, const uint32_t *folding) {
    Reader r = {.at = begin, .end = end, .folding = folding, .leaving = 1};
    for (int i = 0; i < WORDS; i++) r.leaving *= ODD;
    return r;
}

// Take a word; whether a shingle ends with it.
static inline int take(Reader *r, uint64_t word, uint64_t *shingle) {
    r->rolling = r->rolling * ODD + word - r->recent[r->slot] * r->leaving;
    r->recent[r->slot] = word;
    r->slot = r->slot + 1 == WORDS ? 0 : r->slot + 1;
    if (++r->words < WORDS) return 0;
    *shingle = mix(r->rolling);
    return 1;
}

// The next shingles of a text, at most BLOCK + 1 of them; 0 at its end.
static int64_t next(Reader *r, uint64_t *out) {
    int64_t n = 0;
    const uint8_t *s = r->at, *end = r->end;
    uint64_t word = r->word;
    int inside = r->inside;
    while (s < end && n < BLOCK) {
        uint32_t folded = r->folding[decoded(&s)];
        if (folded - 1 < LEFT_OUT - 1) { word = word * ODD + folded; inside = 1; continue; }
        if (folded == LEFT_OUT) continue;
        if (inside) { n += take(r, mix(word), out + n); word = 0; inside = 0; }
        if (folded) n += take(r, mix(folded & ~ALONE), out + n);
    }
    if (s == end && inside && n < BLOCK) { n += take(r, mix(word), out + n); word = 0; inside = 0; }
    if (s == end && !inside && !r->ended && r->words && r->words < WORDS) {
        out[n++] = mix(r->rolling + (uint64_t)r->words);
        r->ended = 1;
    }
    r->at = s;
    r->word = word;
    r->inside = inside;
    return n;
}

VECTORS static void lower(uint32_t *least, const uint64_t *shingles, int64_t n, const uint32_t *a, const uint32_t *b) {
    for (int tile = 0; tile < PERMUTATIONS; tile += TILE) {
        uint32_t m[TILE], p[TILE], q[TILE];
        memcpy(m, least + tile, sizeof m);
        memcpy(p, a + tile, sizeof p);
        memcpy(q, b + tile, sizeof q);
        for (int64_t i = 0; i < n; i++) {
            uint32_t x = (uint32_t)(shingles[i] >> 32);
            for (int j = 0; j < TILE; j++) {
                uint32_t v = p[j] * x + q[j];
                m[j] = v < m[j] ? v : m[j];
            }
        }
        memcpy(least + tile, m, sizeof m);
    }
}

// keys[texts][BANDS], and how many shingles each text has; the keys of a text without any are 0.
void bands(const uint8_t *data, const int64_t *offsets, int64_t texts, const uint32_t *folding, const uint32_t *a,
           const uint32_t *b, uint64_t *keys, int64_t *counts) {
    uint64_t block[BLOCK + 2];
    for (int64_t text = 0; text < texts; text++, keys += BANDS) {
        Reader r = reader(data + offsets[text], data + offsets[text + 1], folding);
        uint32_t least[PERMUTATIONS];
        memset(least, 255, sizeof least);
        counts[text] = 0;
        for (int64_t n; (n = next(&r, block)); counts[text] += n) lower(least, block, n, a, b);
        for (int band = 0; band < BANDS; band++) {
            uint64_t key = (uint64_t)band + 1;
            for (int row = 0; row < ROWS; row++) key = mix(key * ODD ^ least[band * ROWS + row]);
            keys[band] = counts[text] ? key : 0;
        }
    }
}

// The names of all words of all texts in a row; ends[i]: how many there are in the texts up to the i-th.
void words(const uint8_t *data, const int64_t *offsets, int64_t texts, const uint32_t *folding, uint64_t *out,
           int64_t *ends) {
    int64_t count = 0;
    for (int64_t text = 0; text < texts; text++) {
        const uint8_t *s = data + offsets[text], *end = data + offsets[text + 1];
        uint64_t word = 0;
        int inside = 0;
        while (s < end) {
            uint32_t folded = folding[decoded(&s)];
            if (folded - 1 < LEFT_OUT - 1) { word = word * ODD + folded; inside = 1; continue; }
            if (folded == LEFT_OUT) continue;
            if (inside) { out[count++] = mix(word); word = 0; inside = 0; }
            if (folded) out[count++] = mix(folded & ~ALONE);
        }
        if (inside) out[count++] = mix(word);
        ends[text] = count;
    }
}

// All shingles of all texts in a row; ends[i]: how many there are in the texts up to the i-th.
void shingles(const uint8_t *data, const int64_t *offsets, int64_t texts, const uint32_t *folding, uint64_t *out,
              int64_t *ends) {
    uint64_t block[BLOCK + 2];
    int64_t count = 0;
    for (int64_t text = 0; text < texts; text++) {
        Reader r = reader(data + offsets[text], data + offsets[text + 1], folding);
        for (int64_t n; (n = next(&r, block)); count += n) memcpy(out + count, block, (size_t)n * sizeof *block);
        ends[text] = count;
    }
}

// Rows of two numbers in order, by the first and then by the second: a radix sort from the last byte to the first, in
// which a byte that is the same in all rows costs nothing. The sorted rows are in `rows`; `spare` is as large.
void sort_rows(uint64_t *rows, uint64_t *spare, int64_t n) {
    int64_t counts[16][256];
    memset(counts, 0, sizeof counts);
    for (int64_t i = 0; i < n; i++)
        for (int byte = 0; byte < 8; byte++) {
            counts[byte][rows[2 * i + 1] >> 8 * byte & 255]++;
            counts[8 + byte][rows[2 * i] >> 8 * byte & 255]++;
        }
    uint64_t *from = rows, *to = spare;
    for (int place = 0; place < 16; place++) {
        int64_t *count = counts[place], begin = 0;
        const int second = place < 8, shift = 8 * (place & 7);
        if (n && count[from[second] >> shift & 255] == n) continue;
        for (int value = 0; value < 256; value++) { int64_t here = count[value]; count[value] = begin; begin += here; }
        for (int64_t i = 0; i < n; i++) {
            int64_t at = count[from[2 * i + second] >> shift & 255]++;
            to[2 * at] = from[2 * i];
            to[2 * at + 1] = from[2 * i + 1];
        }
        uint64_t *other = from;
        from = to;
        to = other;
    }
    if (from != rows) memcpy(rows, from, (size_t)n * 2 * sizeof *rows);
}

// common[i]: how many members sets left[i] and right[i] share; set k is sets[offsets[k]..offsets[k + 1]], ascending.
void overlaps(const uint64_t *sets, const int64_t *offsets, const int64_t *left, const int64_t *right, int64_t pairs,
              int64_t *common) {
    for (int64_t pair = 0; pair < pairs; pair++) {
        const uint64_t *s = sets + offsets[left[pair]], *s_end = sets + offsets[left[pair] + 1];
        const uint64_t *t = sets + offsets[right[pair]], *t_end = sets + offsets[right[pair] + 1];
        int64_t found = 0;
        while (s < s_end && t < t_end) {
            uint64_t x = *s, y = *t;
            found += x == y;
            s += x <= y;
            t += y <= x;
        }
        common[pair] = found;
    }
}
