// Words, shingles and MinHash of texts in one pass over their characters, and the overlap of sorted sets of shingles.
//
// shingles.py, minhash.py, grams.py and verification.py say what each number means, and compute the same in numpy. Text
// is valid UTF-8. Nothing is allocated here: memory is the caller's and does not depend on the text.
#include <stdint.h>
#include <string.h>
#if defined(__GNUC__) && defined(__SSE2__)
#include <emmintrin.h>
#define WIDE 1
#else
#define WIDE 0
#endif

#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__has_attribute)
#if __has_attribute(target_clones)
#define VECTORS __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#endif
#ifndef VECTORS
#define VECTORS
#endif

enum { WORDS = 5, BEFORE = WORDS - 1, BANDS = 20, ROWS = 6, PERMUTATIONS = BANDS * ROWS, TILE = 40 };
enum { BLOCK = 256, WIDTH = 64, NARROW = 16, EIGHT = 8, MOST = 2 * BLOCK + 2 * WIDTH };
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

// The least multiple of eight that is not less: so far vectors go, and what they make of the rest is never looked at.
static inline int64_t whole(int64_t n) { return (n + EIGHT - 1) / EIGHT * EIGHT; }

VECTORS static void mixed(uint64_t *x, int64_t n) {
    for (int64_t i = 0; i < whole(n); i++) x[i] = mix(x[i]);
}

// A text that is read; `word` is the polynomial of the word that it is inside of.
typedef struct {
    const uint8_t *at, *end;
    const uint32_t *folding;
    uint64_t word;
    int inside, plain;
} Reader;

static inline uint8_t folded_ascii(uint8_t c) {
    uint8_t small = c | 32;
    return (uint8_t)(small - 'a') < 26 ? small : (uint8_t)(c - '0') < 10 ? c : 0;
}

// Whether the table folds ASCII as `folded_ascii` does.
static int is_plain(const uint32_t *folding) {
    for (int c = 0; c < 0x80; c++)
        if (folding[c] != folded_ascii((uint8_t)c)) return 0;
    return WIDE;
}

static Reader reader(const uint8_t *begin, const uint8_t *end, const uint32_t *folding, int plain) {
    return (Reader){begin, end, folding, 0, 0, plain};
}

static inline int64_t closed(Reader *r, uint64_t *out) {
    int64_t open = r->inside;
    if (open) *out = r->word;
    r->word = 0;
    r->inside = 0;
    return open;
}

// Take characters up to `stop`, or the end of a word that reaches over it: the polynomials of words, and how many.
static int64_t one_by_one(Reader *r, const uint8_t *stop, uint64_t *out) {
    int64_t n = 0;
    const uint8_t *s = r->at;
    while (s < r->end && (s < stop || r->inside)) {
        uint32_t folded = r->folding[decoded(&s)];
        if (folded - 1 < LEFT_OUT - 1) { r->word = r->word * ODD + folded; r->inside = 1; continue; }
        if (folded == LEFT_OUT) continue;
        n += closed(r, out + n);
        if (folded) out[n++] = folded & ~ALONE;
    }
    if (s == r->end) n += closed(r, out + n);
    r->at = s;
    return n;
}

#if WIDE
static inline uint64_t eight(const uint8_t *s) {
    uint64_t x;
    memcpy(&x, s, sizeof x);
    return x;
}

static inline __m128i between(__m128i c, char first, char last) {
    return _mm_and_si128(_mm_cmpgt_epi8(c, _mm_set1_epi8(first - 1)), _mm_cmplt_epi8(c, _mm_set1_epi8(last + 1)));
}

// Of eight letters the last is the highest byte; bytes before the first one are 0.
VECTORS static void polynomials(uint64_t *letters, int64_t n) {
    for (int64_t i = 0; i < whole(n); i++) {
        uint64_t x = letters[i], sum = x & 255;
        for (int byte = 1; byte < EIGHT; byte++) sum = sum * ODD + (x >> 8 * byte & 255);
        letters[i] = sum;
    }
}

// Take whole words of ASCII, WIDTH bytes together: their polynomials, and how many. What follows is left to one_by_one:
// a word that is not ASCII, or of more than 16 letters, or the end of the text. Nothing is taken where that is near.
static int64_t side_by_side(Reader *r, uint64_t *out) {
    static const uint64_t LAST[EIGHT + 1] = {0,         ~0ULL << 56, ~0ULL << 48, ~0ULL << 40, ~0ULL << 32,
                                             ~0ULL << 24, ~0ULL << 16, ~0ULL << 8,  ~0ULL};
    uint64_t eighth = ODD * ODD;
    eighth *= eighth;
    eighth *= eighth;
    uint8_t held[2 * EIGHT + WIDTH], last[WIDTH], *folded = held + 2 * EIGHT;
    memset(held, 0, 2 * EIGHT);
    uint64_t heads[BLOCK + WIDTH];  // of words of more than eight letters: those before the last eight
    int16_t whose[BLOCK + WIDTH];
    int64_t n = 0, longer = 0;
    for (int more = 1; more && r->at < r->end && n < BLOCK;) {
        const uint8_t *s = r->at;
        int length = WIDTH;
        if (r->end - s < WIDTH) {
            length = (int)(r->end - s);
            memset(last, 0, sizeof last);
            s = memcpy(last, s, (size_t)length);
        }
        uint64_t letters = 0, foreign = 0;
        for (int i = 0; i < WIDTH; i += 16) {
            const __m128i c = _mm_loadu_si128((const __m128i *)(s + i)), small = _mm_or_si128(c, _mm_set1_epi8(32));
            const __m128i is = _mm_or_si128(between(small, 'a', 'z'), between(c, '0', '9'));
            _mm_storeu_si128((__m128i *)(folded + i), _mm_and_si128(is, small));
            letters |= (uint64_t)(uint32_t)_mm_movemask_epi8(is) << i;
            foreign |= (uint64_t)(uint32_t)_mm_movemask_epi8(c) << i;
        }
        if (foreign) {
            more = 0;
            length = __builtin_ctzll(foreign);
            if (length < NARROW) break;
        }
        if (foreign || s != last) {  // what is a word at the end may go on behind it
            uint64_t gaps = ~(letters << (WIDTH - length));
            length -= gaps ? __builtin_clzll(gaps) : WIDTH;
            if (!length) break;
            letters &= ~0ULL >> (WIDTH - length);
        }
        uint64_t begins = letters & ~(letters << 1), ends = ~letters & letters << 1;
        for (; begins; begins &= begins - 1, ends &= ends - 1) {
            int begin = __builtin_ctzll(begins), end = __builtin_ctzll(ends), size = end - begin;
            if (size > 2 * EIGHT) { more = 0; length = begin; break; }
            out[n] = eight(folded + end - EIGHT) & LAST[size < EIGHT ? size : EIGHT];
            heads[longer] = eight(folded + end - 2 * EIGHT) & LAST[size > EIGHT ? size - EIGHT : 0];
            whose[longer] = (int16_t)n++;
            longer += size > EIGHT;
        }
        r->at += length;
    }
    polynomials(out, n);
    polynomials(heads, longer);
    for (int64_t i = 0; i < longer; i++) out[whose[i]] += heads[i] * eighth;
    return n;
}
#else
static int64_t side_by_side(Reader *r, uint64_t *out) { (void)r; (void)out; return 0; }
#endif

// The names of the next words of a text, at most MOST of them; 0 at its end.
static int64_t named(Reader *r, uint64_t *out) {
    int64_t n = 0;
    while (r->at < r->end && n < BLOCK) {
        const uint8_t *s = r->at;
        if (r->plain) n += side_by_side(r, out + n);
        if (r->at < r->end && n < BLOCK) n += one_by_one(r, r->at + (r->at == s ? WIDTH : 1), out + n);
    }
    mixed(out, n);
    return n;
}

// The shingles of a text that is read; its last words are before the next ones.
typedef struct {
    Reader reader;
    uint64_t words[BEFORE + MOST];
    int64_t count;
    int ended;
} Shingles;

static void begin(Shingles *r, Reader reader) {
    r->reader = reader;
    memset(r->words, 0, BEFORE * sizeof *r->words);
    r->count = 0;
    r->ended = 0;
}

static inline uint64_t joined(const uint64_t *words, int n) {
    uint64_t sum = words[0];
    for (int i = 1; i < n; i++) sum = sum * ODD + words[i];
    return sum;
}

VECTORS static void shingled(const uint64_t *words, int64_t n, uint64_t *out) {
    for (int64_t i = 0; i < whole(n); i++) out[i] = mix(joined(words + i, WORDS));
}

// The next shingles of a text, at most MOST of them; 0 at its end.
static int64_t next(Shingles *r, uint64_t *out) {
    for (int64_t n; (n = named(&r->reader, r->words + BEFORE));) {
        int64_t first = r->count < BEFORE ? BEFORE - r->count : 0;
        r->count += n;
        if (first < n) shingled(r->words + first, n - first, out);
        memmove(r->words, r->words + n, BEFORE * sizeof *r->words);
        if (first < n) return n - first;
    }
    if (r->ended || !r->count || r->count > BEFORE) return 0;
    r->ended = 1;
    *out = mix(joined(r->words, BEFORE) + (uint64_t)r->count);
    return 1;
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
    uint64_t block[MOST];
    const int plain = is_plain(folding);
    Shingles r;
    for (int64_t text = 0; text < texts; text++, keys += BANDS) {
        begin(&r, reader(data + offsets[text], data + offsets[text + 1], folding, plain));
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
    uint64_t block[MOST];
    int64_t count = 0;
    const int plain = is_plain(folding);
    for (int64_t text = 0; text < texts; text++) {
        Reader r = reader(data + offsets[text], data + offsets[text + 1], folding, plain);
        for (int64_t n; (n = named(&r, block)); count += n) memcpy(out + count, block, (size_t)n * sizeof *block);
        ends[text] = count;
    }
}

// All shingles of all texts in a row; ends[i]: how many there are in the texts up to the i-th.
void shingles(const uint8_t *data, const int64_t *offsets, int64_t texts, const uint32_t *folding, uint64_t *out,
              int64_t *ends) {
    uint64_t block[MOST];
    int64_t count = 0;
    const int plain = is_plain(folding);
    Shingles r;
    for (int64_t text = 0; text < texts; text++) {
        begin(&r, reader(data + offsets[text], data + offsets[text + 1], folding, plain));
        for (int64_t n; (n = next(&r, block)); count += n) memcpy(out + count, block, (size_t)n * sizeof *block);
        ends[text] = count;
    }
}

// Each number of each run of ascending ones kept once, in place; bounds[texts + 1], where runs begin, move with them.
void distinct(uint64_t *numbers, int64_t *bounds, int64_t texts) {
    int64_t kept = 0, begin = texts ? bounds[0] : 0;
    for (int64_t text = 0; text < texts; text++) {
        const int64_t end = bounds[text + 1], first = kept;
        for (int64_t i = begin; i < end; i++) {
            numbers[kept] = numbers[i];
            kept += i + 1 == end || numbers[i + 1] != numbers[i];
        }
        bounds[text] = first;
        bounds[text + 1] = kept;
        begin = end;
    }
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
