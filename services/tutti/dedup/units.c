// Lines and paragraphs of texts: where each is, whether it counts, and a name of what it says.
//
// units.py says what each means, and finds the same by Python, under other names. Text is valid UTF-8. Nothing is
// allocated here.
#include <stdint.h>
#include <string.h>

#define LEFT_OUT 0x40000000u  // of folding.py

// SipHash-2-4 of 128 bits (Aumasson and Bernstein 2012), with the key of their test vectors.
typedef struct {
    uint64_t v0, v1, v2, v3, held;
    uint64_t size;
} Hash;

static inline uint64_t turned(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

static inline void rounds(Hash *h, int count) {
    while (count--) {
        h->v0 += h->v1; h->v1 = turned(h->v1, 13) ^ h->v0; h->v0 = turned(h->v0, 32);
        h->v2 += h->v3; h->v3 = turned(h->v3, 16) ^ h->v2;
        h->v0 += h->v3; h->v3 = turned(h->v3, 21) ^ h->v0;
        h->v2 += h->v1; h->v1 = turned(h->v1, 17) ^ h->v2; h->v2 = turned(h->v2, 32);
    }
}

static inline void compressed(Hash *h, uint64_t word) {
    h->v3 ^= word;
    rounds(h, 2);
    h->v0 ^= word;
}

static inline Hash begun(void) {
    const uint64_t low = 0x0706050403020100ULL, high = 0x0f0e0d0c0b0a0908ULL;
    return (Hash){low ^ 0x736f6d6570736575ULL, high ^ 0x646f72616e646f6dULL ^ 0xee, low ^ 0x6c7967656e657261ULL,
                  high ^ 0x7465646279746573ULL, 0, 0};
}

static inline void add(Hash *h, const uint8_t *s, int64_t n) {
    int filled = 8 * (int)(h->size & 7);
    h->size += (uint64_t)n;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    for (uint64_t word; n >= 8; n -= 8, s += 8) {
        memcpy(&word, s, 8);
        compressed(h, h->held | word << filled);
        h->held = filled ? word >> (64 - filled) : 0;
    }
#endif
    for (; n; n--) {
        h->held |= (uint64_t)*s++ << filled;
        if ((filled += 8) == 64) { compressed(h, h->held); h->held = 0; filled = 0; }
    }
}

static inline void ended(Hash *h, uint64_t *name) {
    compressed(h, h->held | h->size << 56);
    h->v2 ^= 0xee;
    rounds(h, 4);
    name[0] = h->v0 ^ h->v1 ^ h->v2 ^ h->v3;
    h->v1 ^= 0xdd;
    rounds(h, 4);
    name[1] = h->v0 ^ h->v1 ^ h->v2 ^ h->v3;
}

// Unicode's White_Space, and the separators of ASCII, as Python's str.isspace has them.
static inline int is_space(uint32_t c) {
    if (c < 0x80) return c == 32 || (c >= 9 && c <= 13) || (c >= 28 && c <= 31);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

static inline int is_word(uint32_t folded) { return folded && folded != LEFT_OUT; }

static inline int width_of(uint8_t lead) { return 1 + (lead >= 0xc0) + (lead >= 0xe0) + (lead >= 0xf0); }

static inline uint32_t decoded(const uint8_t *s, int width) {
    uint32_t code = width == 1 ? s[0] : s[0] & (0x7fu >> width);
    for (int i = 1; i < width; i++) code = code << 6 | (s[i] & 63u);
    return code;
}

// What is known of a unit that is open.
typedef struct {
    Hash hash;
    int64_t characters;
    int apart, words;  // white space since the last character; a letter or a number was there
} Said;

// Some characters without white space among them.
static inline void say(Said *said, const uint8_t *s, int64_t bytes, int64_t characters) {
    if (said->apart && said->characters) { add(&said->hash, (const uint8_t *)" ", 1); said->characters++; }
    said->apart = 0;
    add(&said->hash, s, bytes);
    said->characters += characters;
}

// Of the units of texts in a row: spans[][2] from the begin of the text, names[][2], counted[]; ends[i] is how many there
// are in the texts up to the i-th. A text of n bytes has at most n / 2 + 1.
void units(const uint8_t *data, const int64_t *offsets, int64_t texts, int paragraphs, int64_t least,
           const uint32_t *folding, int64_t *spans, uint64_t *names, uint8_t *counted, int64_t *ends) {
    int64_t count = 0;
    for (int64_t text = 0; text < texts; text++) {
        const uint8_t *base = data + offsets[text], *end = data + offsets[text + 1];
        int open = 0;
        Said said;
        for (const uint8_t *line = base; line <= end;) {
            const uint8_t *s = line;
            int blank = 1;
            for (; s < end && *s != '\n';) {
                int width = width_of(*s);
                uint32_t code = decoded(s, width);
                if (is_space(code)) {
                    if (open) said.apart = 1;
                    s += width;
                    continue;
                }
                if (!open) {
                    said = (Said){begun(), 0, 0, 0};
                    spans[2 * count] = line - base;
                    open = 1;
                }
                blank = 0;
                if (width > 1) {
                    said.words |= is_word(folding[code]);
                    say(&said, s, width, 1);
                    s += width;
                    continue;
                }
                const uint8_t *run = s;
                for (; s < end && *s < 0x80 && !is_space(*s); s++) said.words |= is_word(folding[*s]);
                say(&said, run, s - run, s - run);
            }
            if (open && !blank) spans[2 * count + 1] = s - base;
            if (open && (blank || !paragraphs || s >= end)) {
                ended(&said.hash, names + 2 * count);
                counted[count++] = said.words && said.characters >= least;
                open = 0;
            }
            if (open) said.apart = 1;
            line = s + 1;
        }
        ends[text] = count;
    }
}
