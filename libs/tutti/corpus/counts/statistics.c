// Statistics of texts: one pass over the characters of each, then names for its repeated n-grams, level by level.
//
// Every result is a count.  Identity is exact: a hash only finds candidates, bytes or names are compared, so that the
// seed (which keeps hostile text from choosing its collisions) has no part in the result.  Text is valid UTF-8.
// statistics.py says what each column means, and computes the same in Python.  A text has fewer bytes than 2^32;
// memory and time are in proportion to the longest, whatever it says.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SPACE, LETTER, NUMBER, IDEOGRAPH, EXTEND, JOINER, THOUSANDS, MARK };
enum { CLASS = 15, TERMINAL = 16, LINE_END = 32, BULLET = 64 };

enum {
    CHARACTERS, LINE_CHARACTERS, NEWLINES, TOKENS, WORDS, WORD_CHARACTERS, ALPHABETIC_WORDS, STOP_WORDS, HASHES, ELLIPSES,
    LINES, BULLET_LINES, ELLIPSIS_LINES, ENDED_LINES, SHORT_LINES, DUPLICATE_LINES, DUPLICATE_LINE_CHARACTERS,
    PARAGRAPHS, DUPLICATE_PARAGRAPHS, DUPLICATE_PARAGRAPH_CHARACTERS,
    TOP_2, TOP_3, TOP_4, DUPLICATE_5, DUPLICATE_6, DUPLICATE_7, DUPLICATE_8, DUPLICATE_9, DUPLICATE_10,
    C4_LONG_PIECE, C4_UNENDED, C4_FEW_PIECES, C4_JAVASCRIPT, C4_POLICY, C4_LINES, C4_SENTENCES,
    LOREM_IPSUM_LINES, CURLY_BRACKET_LINES, COLUMNS
};

enum { SHORT_LINE = 30, LONG_PIECE = 1000, LEAST_PIECES = 5, LARGEST_TOP = 4, LARGEST_GRAM = 10 };
#define INLINE static inline __attribute__((always_inline))
#define MET 0x80000000u  // beside a count of n-grams of over LARGEST_TOP: one of them was met

// Tables: open addressing; a slot belongs to the table when it bears its stamp, so that emptying one costs nothing.
typedef struct { uint64_t key; uint32_t stamp, id; } Slot;
typedef struct { Slot *slots; uint64_t size, used; uint32_t stamp; } Table;

typedef struct { const uint8_t *bytes; uint32_t length, place, times; } Span;  // where it was first, and how often
typedef struct { Span *items; int64_t count, room; } Spans;

typedef struct {
    const uint8_t *classes;
    uint64_t seed;
    Table known_tokens, known_lines, known_paragraphs, known_grams;
    Spans token_spans, line_spans, paragraph_spans;  // what the ids of each table stand for
    uint32_t *ends;      // ends[i + 1]: characters of the first i + 1 tokens, spaces left out
    uint32_t *tokens;    // of each the first that is the same
    uint32_t *places;    // tokens where the n-grams begin that may occur again
    uint32_t *grams;     // of each of places the first that begins the same n-gram
    uint32_t *counts, *counts_before;  // by the first: of the n-grams, and of the (n-1)-grams
    const uint8_t *begin, *end;  // of the text
    const uint8_t *phrase;       // the next place in it where a phrase is found by, and which
    int phrase_found;
    int64_t tokens_count, tokens_room, grams_room;
    int failed;
} Work;

static uint64_t mix(uint64_t x) {
    x ^= x >> 32; x *= 0xd6e8feb86659fd93ULL;
    x ^= x >> 32; x *= 0xd6e8feb86659fd93ULL;
    return x ^ (x >> 32);
}

// `end`: how far may be read.
static uint64_t digest(const uint8_t *s, int64_t n, const uint8_t *end, uint64_t seed) {
    uint64_t h = seed ^ ((uint64_t)n * 0x9e3779b97f4a7c15ULL), w = 0;
    const uint8_t *stop = s + n;
    if (n > 8) {
        for (; stop - s > 8; s += 8) { memcpy(&w, s, 8); h = (h ^ w) * 0xff51afd7ed558ccdULL; h ^= h >> 32; }
        memcpy(&w, stop - 8, 8);
    } else if (end - s >= 8) {
        memcpy(&w, s, 8);
        w &= n ? ~0ULL >> (64 - 8 * n) : 0;
    } else memcpy(&w, s, (size_t)n);
    return mix((h ^ w) * 0xff51afd7ed558ccdULL);
}

static int empty_table(Table *t) {
    if (!t->slots) {
        t->size = 1024;
        t->slots = calloc(t->size, sizeof(Slot));
        if (!t->slots) return 0;
    }
    t->used = 0;
    if (!++t->stamp) { memset(t->slots, 0, t->size * sizeof(Slot)); t->stamp = 1; }
    return 1;
}

static int grow_table(Table *t, uint64_t seed, int hashed) {
    uint64_t size = t->size * 2;
    Slot *slots = calloc(size, sizeof(Slot));
    if (!slots) return 0;
    for (uint64_t i = 0; i < t->size; i++) {
        if (t->slots[i].stamp != t->stamp) continue;
        uint64_t at = (hashed ? t->slots[i].key : mix(t->slots[i].key ^ seed)) & (size - 1);
        while (slots[at].stamp) at = (at + 1) & (size - 1);
        slots[at] = t->slots[i];
    }
    free(t->slots);
    t->slots = slots;
    t->size = size;
    return 1;
}

// Denser, keys are far from their places; sparser, a table does not fit into the processor's cache.
static int is_full(const Table *t) { return 4 * t->used >= 3 * t->size; }

// Where a key was met first: at `place` when it was not yet; NULL when memory is short.
static uint32_t *place_of(Table *t, uint64_t key, uint32_t place, uint64_t seed) {
    if (is_full(t) && !grow_table(t, seed, 0)) return NULL;
    for (uint64_t at = mix(key ^ seed) & (t->size - 1);; at = (at + 1) & (t->size - 1)) {
        Slot *slot = t->slots + at;
        if (slot->stamp != t->stamp) {
            *slot = (Slot){key, t->stamp, place};
            t->used++;
        } else if (slot->key != key) continue;
        return &slot->id;
    }
}

// The id of bytes, from 1 in order of first occurrence, 0 when memory is short; `known` are those of each id.  Of bytes
// of the same length up to eight the key tells all.
INLINE uint32_t name_bytes(Table *t, Spans *known, const uint8_t *s, int64_t n, uint32_t place, const Work *w) {
    if (is_full(t) && !grow_table(t, w->seed, 1)) return 0;
    if (known->count + 1 >= known->room) {
        int64_t room = known->room ? 2 * known->room : 1024;
        Span *items = realloc(known->items, (size_t)room * sizeof(Span));
        if (!items) return 0;
        known->items = items;
        known->room = room;
    }
    uint64_t key = digest(s, n, w->end, w->seed);
    for (uint64_t at = key & (t->size - 1);; at = (at + 1) & (t->size - 1)) {
        Slot *slot = t->slots + at;
        if (slot->stamp != t->stamp) {
            *slot = (Slot){key, t->stamp, (uint32_t)++t->used};
            known->items[slot->id] = (Span){s, (uint32_t)n, place, 1};
            known->count = slot->id;
            return slot->id;
        }
        Span *seen = known->items + slot->id;
        if (slot->key == key && seen->length == (uint32_t)n && (n <= 8 || !memcmp(seen->bytes, s, (size_t)n))) {
            seen->times++;
            return slot->id;
        }
    }
}

#define ONES 0x0101010101010101ULL
#define HIGHS 0x8080808080808080ULL

// The high bit of each of eight bytes that is a letter of ASCII, or a digit; nothing is carried from one to the next.
static uint64_t letters(uint64_t w) {
    uint64_t low = (w | 0x20 * ONES) & ~HIGHS;
    return (low + 0x1f * ONES) & ~(low + 0x05 * ONES) & ~w & HIGHS;  // from 'a' on, and not from '{' on
}

static uint64_t digits(uint64_t w) {
    uint64_t low = w & ~HIGHS;
    return (low + 0x50 * ONES) & ~(low + 0x46 * ONES) & ~w & HIGHS;  // from '0' on, and not from ':' on
}

static int decode(const uint8_t *s, uint32_t *code) {
    if (s[0] < 0x80) { *code = s[0]; return 1; }
    if (s[0] < 0xe0) { *code = (s[0] & 31u) << 6 | (s[1] & 63u); return 2; }
    if (s[0] < 0xf0) { *code = (s[0] & 15u) << 12 | (s[1] & 63u) << 6 | (s[2] & 63u); return 3; }
    *code = (s[0] & 7u) << 18 | (s[1] & 63u) << 12 | (s[2] & 63u) << 6 | (s[3] & 63u);
    return 4;
}

// The character that ends at `end`, and where it begins.
static const uint8_t *before(const uint8_t *begin, const uint8_t *end, uint32_t *code) {
    do end--; while (end > begin && (*end & 0xc0) == 0x80);
    decode(end, code);
    return end;
}

static int is_text(const uint8_t *s, const uint8_t *end, const char *text) {
    for (; *text; s++, text++) {
        if (s == end) return 0;
        uint8_t c = *s;
        if (c >= 'A' && c <= 'Z') c |= 32;
        if (c != (uint8_t)*text) return 0;
    }
    return 1;
}

// Phrases that C4 looks for, in any case of ASCII; each is found by two letters of it that seldom follow each other.
enum { HAS_JAVASCRIPT = 1, HAS_POLICY = 2, HAS_LOREM = 4, HAS_CURLY = 8 };
static const struct { const char *text; int at; char letter; int found; } PHRASES[] = {
    {"javascript", 2, 'v', HAS_JAVASCRIPT}, {"privacy policy", 3, 'v', HAS_POLICY},
    {"terms of use", 3, 'm', HAS_POLICY},   {"lorem ipsum", 7, 'p', HAS_LOREM},
    {"cookie policy", 3, 'k', HAS_POLICY},  {"uses cookies", 8, 'k', HAS_POLICY},
    {"use of cookies", 10, 'k', HAS_POLICY}, {"use cookies", 7, 'k', HAS_POLICY},
};
enum { BLOCK = 64 };

// Whether a phrase may be found by this byte and the one behind it; written so that a compiler looks at many at once.
static inline int is_rare(uint8_t a, uint8_t b) {
    a |= 32;
    b |= 32;
    return ((a == 'v') & (b == 'a')) | ((a == 'k') & (b == 'i')) | (((a == 'm') | (a == 'p')) & (b == 's')) | (a == '{');
}

// The next place from `s` on where a phrase is found by, and which: `end` where there is none.
static const uint8_t *phrase(const uint8_t *s, const uint8_t *begin, const uint8_t *end, int *found) {
    for (*found = 0; s < end; s++) {
        while (end - s > BLOCK) {
            int rare = 0;
            for (int k = 0; k < BLOCK; k++) rare |= is_rare(s[k], s[k + 1]);
            if (rare) break;
            s += BLOCK;
        }
        const uint8_t *stop = end - s > BLOCK ? s + BLOCK : end;
        while (s < stop && !is_rare(*s, s + 1 < end ? s[1] : 0)) s++;
        if (s == stop) { s--; continue; }
        if ((*s | 32) == '{') {
            if (*s == '{') *found |= HAS_CURLY;
        } else
            for (size_t k = 0; k < sizeof PHRASES / sizeof *PHRASES; k++)
                if ((*s | 32) == PHRASES[k].letter && s - begin >= PHRASES[k].at &&
                    is_text(s - PHRASES[k].at, end, PHRASES[k].text))
                    *found |= PHRASES[k].found;
        if (*found) return s;
    }
    return end;
}

// The end of a line without citations, [1] [edit] [citation needed], and the spaces around them.
static const uint8_t *without_citations(const uint8_t *classes, const uint8_t *begin, const uint8_t *end) {
    for (;;) {
        const uint8_t *p = end;
        uint32_t code;
        while (p > begin) {
            const uint8_t *q = before(begin, p, &code);
            if ((classes[code] & CLASS) != SPACE) break;
            p = q;
        }
        end = p;
        if (p == begin || p[-1] != ']') return end;
        p--;
        if (p - begin >= 5 && !memcmp(p - 5, "[edit", 5)) { end = p - 5; continue; }
        if (p - begin >= 16 && !memcmp(p - 16, "[citation needed", 16)) { end = p - 16; continue; }
        while (p > begin && p[-1] >= '0' && p[-1] <= '9') p--;
        if (p == begin || p[-1] != '[') return end;
        end = p - 1;
    }
}

// The bit of a word that is one of the eight, in any case of ASCII: each has a place by a hash that keeps them apart.
// Setting bit 5 makes no other byte a small letter.
static unsigned stop_word(const uint8_t *s, int64_t n) {
    static const char words[8][5] = {"be", "that", "the", "of", "with", "to", "have", "and"};
    if (n < 2 || n > 4) return 0;
    uint32_t word = 0;
    memcpy(&word, s, 2);
    word |= (n > 2 ? (uint32_t)s[2] << 16 : 0) | (n > 3 ? (uint32_t)s[3] << 24 : 0);
    word |= 0x20202020u >> (32 - 8 * n);
    uint32_t place = word * 0x6ec9d287u >> 29, known;
    memcpy(&known, words[place], 4);
    return (unsigned)(known == word) << place;
}

INLINE void token(Work *w, const uint8_t *s, const uint8_t *end, int64_t characters) {
    if (w->tokens_count + 2 >= w->tokens_room) {
        int64_t room = w->tokens_room ? 2 * w->tokens_room : 4096;
        uint32_t *ends = realloc(w->ends, (size_t)room * sizeof *ends);
        if (ends) w->ends = ends;
        uint32_t *tokens = realloc(w->tokens, (size_t)room * sizeof *tokens);
        if (tokens) w->tokens = tokens;
        if (!ends || !tokens) { w->failed = 1; return; }
        w->tokens_room = room;
    }
    uint32_t id = name_bytes(&w->known_tokens, &w->token_spans, s, end - s, (uint32_t)w->tokens_count, w);
    if (!id) { w->failed = 1; return; }
    w->tokens[w->tokens_count] = w->token_spans.items[id].place;
    w->ends[w->tokens_count + 1] = w->ends[w->tokens_count] + (uint32_t)characters;
    w->tokens_count++;
}

// The phrases that begin before `end`, the end of a line, and behind the line before; there is no line feed in a phrase.
static int phrases(Work *w, const uint8_t *end) {
    int found = 0;
    while (w->phrase < end) {
        found |= w->phrase_found;
        w->phrase = phrase(w->phrase + 1, w->begin, w->end, &w->phrase_found);
    }
    return found;
}

// The column that counts what C4 does with a line whose last character that is no space ends at `last`; `longest`: the
// characters of its longest piece.
static int verdict(const uint8_t *classes, const uint8_t *begin, const uint8_t *last, int64_t pieces, int64_t longest,
                   int found) {
    const uint8_t *ended = without_citations(classes, begin, last);
    uint32_t code;
    if (longest > LONG_PIECE) return C4_LONG_PIECE;
    if (ended == begin || (ended - begin >= 3 && !memcmp(ended - 3, "...", 3))) return C4_UNENDED;
    before(begin, ended, &code);
    if (!(classes[code] & LINE_END)) return C4_UNENDED;
    if (pieces < LEAST_PIECES) return C4_FEW_PIECES;
    return found & HAS_JAVASCRIPT ? C4_JAVASCRIPT : found & HAS_POLICY ? C4_POLICY : C4_LINES;
}

// Adds what one line has to the counts; returns its characters, or -1 - characters for a blank one.
static int64_t line(Work *w, const uint8_t *begin, const uint8_t *end, int64_t *out, unsigned *stops) {
    const uint8_t *classes = w->classes, *s = begin, *start = begin, *last = begin;
    enum { NOTHING, WORD, IDEOGRAPHIC, MARKS } open = NOTHING;
    int64_t characters = 0, started = 0, pieces = 0, piece = 0, longest = 0, sentences = 0;
    int64_t words = 0, word_characters = 0, alphabetic_words = 0, hashes = 0, ellipses = 0;
    int alphabetic = 0, bullet = 0;
    uint32_t mark = 0, previous = SPACE, code;
#define CLOSE()                                                                              \
    do {                                                                                     \
        if (open == WORD || open == IDEOGRAPHIC) {                                           \
            words++;                                                                         \
            word_characters += characters - started;                                         \
            alphabetic_words += alphabetic;                                                  \
            *stops |= stop_word(start, s - start);                                           \
        } else if (open == MARKS) {                                                          \
            hashes += mark == '#' ? characters - started : 0;                                \
            ellipses += mark == '.' ? (characters - started) / 3 : mark == 0x2026 ? characters - started : 0; \
        }                                                                                    \
        if (open != NOTHING) token(w, start, s, characters - started);                       \
        open = NOTHING;                                                                      \
    } while (0)
    while (s < end) {
        int size = decode(s, &code);
        uint32_t flags = classes[code], class = flags & CLASS;
        if (class == JOINER || class == THOUSANDS) {
            uint32_t next = SPACE, ahead;
            if (s + size < end) { decode(s + size, &ahead); next = classes[ahead] & CLASS; }
            int joins = class == JOINER ? open == WORD && (next == LETTER || next == NUMBER)
                                        : open == WORD && (previous & CLASS) == NUMBER && next == NUMBER;
            class = joins ? EXTEND : MARK;
            if (joins) flags = EXTEND;
        }
        switch (class) {
        case SPACE: CLOSE(); piece = 0; break;
        case LETTER: case NUMBER:
            if (open != WORD) { CLOSE(); open = WORD; start = s; started = characters; alphabetic = 0; }
            alphabetic |= class == LETTER;
            break;
        case IDEOGRAPH:
            CLOSE();
            open = IDEOGRAPHIC; start = s; started = characters; alphabetic = 1;
            break;
        case EXTEND: if (open == MARKS) CLOSE(); break;
        default:
            if (open != MARKS || mark != code) {
                CLOSE();
                open = MARKS; start = s; started = characters; mark = code;
                sentences += (flags & TERMINAL) && !(previous & TERMINAL);
            }
        }
        if (class != SPACE) {
            if (!pieces) bullet = (flags & BULLET) != 0;
            if (!piece) pieces++;
            if (++piece > longest) longest = piece;
            last = s + size;
        }
        previous = flags;
        characters++;
        s += size;
        // The rest of a word in ASCII, eight bytes at once; the line feed behind a line is in none.
        if (open == WORD) {
            const uint8_t *run = s;
            for (uint64_t eight; w->end - s >= 8;) {
                memcpy(&eight, s, 8);
                uint64_t letter = letters(eight), others = ~(letter | digits(eight)) & HIGHS;
                alphabetic |= (letter & (others ? others ^ (others - 1) : ~0ULL)) != 0;
                s += others ? __builtin_ctzll(others) >> 3 : 8;
                if (others) break;
            }
            for (; s < end && *s < 0x80 && (classes[*s] & CLASS) - 1u < 2u; s++) alphabetic |= classes[*s] == LETTER;
            if (s > run) {
                characters += s - run;
                piece += s - run;
                if (piece > longest) longest = piece;
                last = s;
                previous = classes[s[-1]];
            }
        }
    }
    CLOSE();
#undef CLOSE
    out[WORDS] += words;
    out[WORD_CHARACTERS] += word_characters;
    out[ALPHABETIC_WORDS] += alphabetic_words;
    out[HASHES] += hashes;
    out[ELLIPSES] += ellipses;
    if (!pieces) return -1 - characters;
    out[LINES]++;
    out[BULLET_LINES] += bullet;
    before(begin, last, &code);
    out[ENDED_LINES] += (classes[code] & LINE_END) != 0;
    out[ELLIPSIS_LINES] += code == 0x2026 || (last - begin >= 3 && !memcmp(last - 3, "...", 3));
    out[SHORT_LINES] += characters <= SHORT_LINE;
    int found = phrases(w, end);
    out[LOREM_IPSUM_LINES] += (found & HAS_LOREM) != 0;
    out[CURLY_BRACKET_LINES] += (found & HAS_CURLY) != 0;
    int kind = verdict(classes, begin, last, pieces, longest, found);
    out[kind]++;
    if (kind == C4_LINES) out[C4_SENTENCES] += sentences ? sentences : 1;
    return characters;
}

// Of the n-grams those that occur more than once, still in their order; returns how many.  Tells where the first of the
// most frequent begins, and how often it occurs.
static int64_t keep_repeated(Work *w, int64_t count, uint32_t *first, uint32_t *most) {
    uint32_t *places = w->places, *grams = w->grams, *counts = w->counts;
    int64_t kept = 0;
    *first = 0;
    *most = 1;
    for (int64_t k = 0; k < count; k++) {
        uint32_t gram = grams[k], times = counts[gram];
        places[kept] = places[k];
        grams[kept] = gram;
        kept += times > 1;
        if (times > *most) { *most = times; *first = gram; }
    }
    return kept;
}

// The same; tells of how many characters the tokens of n-grams are that occurred before.
static int64_t keep_duplicates(Work *w, int64_t count, int n, int64_t *characters) {
    uint32_t *places = w->places, *grams = w->grams, *counts = w->counts, *ends = w->ends;
    int64_t kept = 0, found = 0;
    uint32_t next = 0;
    for (int64_t k = 0; k < count; k++) {
        uint32_t gram = grams[k], place = places[k], times = counts[gram];
        places[kept] = place;
        grams[kept] = gram;
        kept += times > 1;
        if (place < next || times == 1) continue;
        if (!(times & MET)) { counts[gram] |= MET; continue; }
        found += ends[place + n] - ends[place];
        next = place + (uint32_t)n;
    }
    *characters = found;
    return kept;
}

// From the (n-1)-grams that occur more than once to the n-grams that may; returns how many.  An n-gram goes on from the
// (n-1)-gram at its begin: as that did where it was first, and then it was there too; or otherwise, and then it occurs
// once if that occurs twice, and else a table knows it.
static int64_t longer(Work *w, int n, int64_t held) {
    uint32_t *places = w->places, *grams = w->grams, *counts = w->counts, *before = w->counts_before;
    const uint32_t *last = w->tokens + n - 1;
    int64_t found = 0;
    if (!empty_table(&w->known_grams)) { w->failed = 1; return 0; }
    for (int64_t k = 0; k + 1 < held; k++) {
        uint32_t place = places[k], gram = grams[k];
        if (places[k + 1] != place + 1) continue;  // the (n-1)-gram at its end occurs once
        if (last[gram] != last[place]) {
            if ((before[gram] & ~MET) == 2) continue;
            uint32_t *known = place_of(&w->known_grams, (uint64_t)gram << 32 | last[place], place, w->seed);
            if (!known) { w->failed = 1; return 0; }
            gram = *known;
        }
        counts[gram] = gram == place ? 1 : counts[gram] + 1;
        places[found] = place;
        grams[found++] = gram;
    }
    return found;
}

static int make_room(Work *w) {
    if (w->grams_room >= w->tokens_count) return 1;
    free(w->places); free(w->grams); free(w->counts); free(w->counts_before);
    w->grams_room = w->tokens_count;
    w->places = malloc((size_t)w->grams_room * sizeof *w->places);
    w->grams = malloc((size_t)w->grams_room * sizeof *w->grams);
    w->counts = malloc((size_t)w->grams_room * sizeof *w->counts);
    w->counts_before = malloc((size_t)w->grams_room * sizeof *w->counts_before);
    if (!w->places || !w->grams || !w->counts || !w->counts_before) w->grams_room = 0;
    return w->grams_room > 0;
}

// An n-gram is named by the token where it first begins; a token is one of length 1.
static void repetition(Work *w, int64_t *out) {
    int64_t count = w->tokens_count;
    uint32_t first, most;
    if (!count) return;
    if (!make_room(w)) { w->failed = 1; return; }
    for (uint64_t id = 1; id <= w->known_tokens.used; id++) {
        const Span *token = w->token_spans.items + id;
        w->counts[token->place] = token->times;
    }
    for (int64_t i = 0; i < count; i++) w->places[i] = (uint32_t)i;
    memcpy(w->grams, w->tokens, (size_t)count * sizeof *w->grams);
    int64_t held = keep_repeated(w, count, &first, &most);
    for (int n = 2; n <= LARGEST_GRAM && n <= count; n++) {
        uint32_t *counts = w->counts;
        w->counts = w->counts_before;
        w->counts_before = counts;
        held = longer(w, n, held);
        if (w->failed) return;
        if (n > LARGEST_TOP) {
            held = keep_duplicates(w, held, n, out + DUPLICATE_5 + n - 5);
            continue;
        }
        held = keep_repeated(w, held, &first, &most);
        out[TOP_2 + n - 2] = (int64_t)(w->ends[first + n] - w->ends[first] + (uint32_t)n - 1) * most;
    }
}

static void document(Work *w, const uint8_t *s, const uint8_t *end, int64_t *out) {
    unsigned stops = 0;
    const uint8_t *paragraph = NULL, *stop = NULL;
    int64_t held = 0;
    memset(out, 0, COLUMNS * sizeof *out);
    w->tokens_count = 0;
    w->ends[0] = 0;
    if (!empty_table(&w->known_tokens) || !empty_table(&w->known_lines) || !empty_table(&w->known_paragraphs)) { w->failed = 1; return; }
    if (s == end) return;
    w->begin = s;
    w->end = end;
    w->phrase = phrase(s, s, end, &w->phrase_found);
    for (;;) {
        const uint8_t *stopped = memchr(s, '\n', (size_t)(end - s));
        const uint8_t *limit = stopped ? stopped : end;
        int64_t characters = line(w, s, limit, out, &stops);
        out[CHARACTERS] += characters < 0 ? -1 - characters : characters;
        if (characters >= 0) {
            uint64_t known = w->known_lines.used;
            uint32_t id = name_bytes(&w->known_lines, &w->line_spans, s, limit - s, 0, w);
            if (!id) w->failed = 1;
            if (id <= known) { out[DUPLICATE_LINES]++; out[DUPLICATE_LINE_CHARACTERS] += characters; }
            if (!paragraph) { paragraph = s; held = -1; }
            held += characters + 1;
            stop = limit;
        }
        if (paragraph && (characters < 0 || !stopped)) {
            uint64_t known = w->known_paragraphs.used;
            uint32_t id = name_bytes(&w->known_paragraphs, &w->paragraph_spans, paragraph, stop - paragraph, 0, w);
            if (!id) w->failed = 1;
            out[PARAGRAPHS]++;
            if (id <= known) { out[DUPLICATE_PARAGRAPHS]++; out[DUPLICATE_PARAGRAPH_CHARACTERS] += held; }
            paragraph = NULL;
        }
        if (w->failed || !stopped) break;
        out[NEWLINES]++;
        s = stopped + 1;
    }
    out[LINE_CHARACTERS] = out[CHARACTERS];
    out[CHARACTERS] += out[NEWLINES];
    out[TOKENS] = w->tokens_count;
    out[STOP_WORDS] = __builtin_popcount(stops);
    if (!w->failed) repetition(w, out);
}

// What C4 does with each line of texts that is not blank: spans[][2] from the begin of its text, found[] as Verdict of
// lines.py has them in order; ends[i] is how many there are in the texts up to the i-th. A text of n bytes has at most
// n / 2 + 1.
void verdicts(const uint8_t *data, const int64_t *offsets, int64_t texts, const uint8_t *classes, int64_t *spans,
              uint8_t *found, int64_t *ends) {
    Work w = {.classes = classes};
    int64_t count = 0;
    for (int64_t text = 0; text < texts; text++) {
        w.begin = data + offsets[text];
        w.end = data + offsets[text + 1];
        w.phrase = phrase(w.begin, w.begin, w.end, &w.phrase_found);
        for (const uint8_t *s = w.begin, *limit; s < w.end; s = limit + 1) {
            const uint8_t *begin = s, *last = s;
            int64_t pieces = 0, piece = 0, longest = 0;
            limit = memchr(s, '\n', (size_t)(w.end - s));
            if (!limit) limit = w.end;
            while (s < limit) {
                uint32_t code;
                s += decode(s, &code);
                if ((classes[code] & CLASS) == SPACE) { piece = 0; continue; }
                if (!piece++) pieces++;
                if (piece > longest) longest = piece;
                last = s;
            }
            int phrased = phrases(&w, limit);
            if (!pieces) continue;
            spans[2 * count] = begin - w.begin;
            spans[2 * count + 1] = limit - w.begin;
            found[count++] = (uint8_t)(verdict(classes, begin, last, pieces, longest, phrased) - C4_LONG_PIECE);
        }
        ends[text] = count;
    }
}

// COLUMNS counts a document; -1 when memory is short.
int statistics(const uint8_t *data, const int64_t *offsets, int64_t documents, const uint8_t *classes, uint64_t seed,
               int64_t *out) {
    Work w = {.classes = classes, .seed = seed};
    w.ends = malloc(4096 * sizeof *w.ends);
    w.tokens = malloc(4096 * sizeof *w.tokens);
    w.tokens_room = 4096;
    w.failed = !w.ends || !w.tokens;
    for (int64_t i = 0; i < documents && !w.failed; i++)
        document(&w, data + offsets[i], data + offsets[i + 1], out + i * COLUMNS);
    free(w.known_tokens.slots); free(w.known_lines.slots); free(w.known_paragraphs.slots); free(w.known_grams.slots);
    free(w.token_spans.items); free(w.line_spans.items); free(w.paragraph_spans.items);
    free(w.ends); free(w.tokens); free(w.places); free(w.grams); free(w.counts); free(w.counts_before);
    return w.failed ? -1 : 0;
}
