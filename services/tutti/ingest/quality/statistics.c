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

// Tables: open addressing; a slot belongs to the table when it bears its stamp, so that emptying one costs nothing.
typedef struct { uint64_t key; uint32_t stamp, id; } Slot;
typedef struct { Slot *slots; uint64_t size, used; uint32_t stamp; } Table;

typedef struct { const uint8_t *bytes; int64_t length; } Span;
typedef struct { Span *items; int64_t count, room; } Spans;

typedef struct {
    const uint8_t *classes;
    uint64_t seed;
    Table tokens, lines, paragraphs, grams;
    Spans token_spans, line_spans, paragraph_spans;  // what the ids of each table stand for
    uint32_t *ends;      // ends[i + 1]: characters of the first i + 1 tokens, spaces left out
    uint32_t *names;     // of each token, later of the n-gram that begins at each of places
    uint32_t *places;    // tokens where the n-grams begin that may occur again
    uint32_t *counts;    // by name
    uint32_t *firsts;    // by name: the token where it first begins
    int64_t tokens_count, tokens_room, names_room;
    int failed;
} Work;

static uint64_t mix(uint64_t x) {
    x ^= x >> 32; x *= 0xd6e8feb86659fd93ULL;
    x ^= x >> 32; x *= 0xd6e8feb86659fd93ULL;
    return x ^ (x >> 32);
}

static uint64_t digest(const uint8_t *s, int64_t n, uint64_t seed) {
    uint64_t h = seed ^ ((uint64_t)n * 0x9e3779b97f4a7c15ULL), w;
    for (; n > 8; s += 8, n -= 8) { memcpy(&w, s, 8); h = (h ^ w) * 0xff51afd7ed558ccdULL; h ^= h >> 32; }
    uint32_t a, b;
    if (n >= 4) { memcpy(&a, s, 4); memcpy(&b, s + n - 4, 4); w = (uint64_t)a << 32 | b; }
    else w = n ? (uint64_t)s[0] << 16 | (uint64_t)s[n >> 1] << 8 | s[n - 1] : 0;
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

// The id of a key, from 1 in order of first occurrence; 0 when memory is short.
static uint32_t name(Table *t, uint64_t key, uint64_t seed) {
    if (2 * t->used >= t->size && !grow_table(t, seed, 0)) return 0;
    for (uint64_t at = mix(key ^ seed) & (t->size - 1);; at = (at + 1) & (t->size - 1)) {
        Slot *slot = t->slots + at;
        if (slot->stamp != t->stamp) {
            *slot = (Slot){key, t->stamp, (uint32_t)++t->used};
            return slot->id;
        }
        if (slot->key == key) return slot->id;
    }
}

// The same for bytes; `known` are those of each id.
static uint32_t name_bytes(Table *t, Spans *known, const uint8_t *s, int64_t n, uint64_t seed) {
    if (2 * t->used >= t->size && !grow_table(t, seed, 1)) return 0;
    if (known->count + 1 >= known->room) {
        int64_t room = known->room ? 2 * known->room : 1024;
        Span *items = realloc(known->items, (size_t)room * sizeof(Span));
        if (!items) return 0;
        known->items = items;
        known->room = room;
    }
    uint64_t key = digest(s, n, seed);
    for (uint64_t at = key & (t->size - 1);; at = (at + 1) & (t->size - 1)) {
        Slot *slot = t->slots + at;
        if (slot->stamp != t->stamp) {
            *slot = (Slot){key, t->stamp, (uint32_t)++t->used};
            known->items[slot->id] = (Span){s, n};
            known->count = slot->id;
            return slot->id;
        }
        Span *seen = known->items + slot->id;
        if (slot->key == key && seen->length == n && !memcmp(seen->bytes, s, (size_t)n)) return slot->id;
    }
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
    size_t n = strlen(text);
    if ((size_t)(end - s) < n) return 0;
    for (size_t i = 0; i < n; i++) {
        uint8_t c = s[i];
        if (c >= 'A' && c <= 'Z') c |= 32;
        if (c != (uint8_t)text[i]) return 0;
    }
    return 1;
}

// Phrases that C4 looks for, in any case of ASCII; each is found by a letter of it that is rare.
enum { HAS_JAVASCRIPT = 1, HAS_POLICY = 2, HAS_LOREM = 4, HAS_CURLY = 8 };
static const struct { const char *text; int at; char letter; int found; } PHRASES[] = {
    {"javascript", 2, 'v', HAS_JAVASCRIPT}, {"privacy policy", 3, 'v', HAS_POLICY},
    {"terms of use", 3, 'm', HAS_POLICY},   {"lorem ipsum", 4, 'm', HAS_LOREM},
    {"cookie policy", 3, 'k', HAS_POLICY},  {"uses cookies", 8, 'k', HAS_POLICY},
    {"use of cookies", 10, 'k', HAS_POLICY}, {"use cookies", 7, 'k', HAS_POLICY},
};

static int phrases(const uint8_t *s, const uint8_t *end) {
    static const uint8_t rare[256] = {['v'] = 1, ['V'] = 1, ['m'] = 1, ['M'] = 1, ['k'] = 1, ['K'] = 1, ['{'] = 1};
    int found = 0;
    for (const uint8_t *p = s; p < end; p++) {
        if (!rare[*p]) continue;
        if (*p == '{') { found |= HAS_CURLY; continue; }
        for (size_t k = 0; k < sizeof PHRASES / sizeof *PHRASES; k++)
            if ((*p | 32) == PHRASES[k].letter && p - s >= PHRASES[k].at && is_text(p - PHRASES[k].at, end, PHRASES[k].text))
                found |= PHRASES[k].found;
    }
    return found;
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

static unsigned stop_word(const uint8_t *s, int64_t n) {
    static const char *const words[] = {"the", "be", "to", "of", "and", "that", "have", "with"};
    if (n < 2 || n > 4) return 0;
    for (unsigned k = 0; k < 8; k++)
        if ((int64_t)strlen(words[k]) == n && is_text(s, s + n, words[k])) return 1u << k;
    return 0;
}

static void token(Work *w, const uint8_t *s, const uint8_t *end, int64_t characters) {
    if (w->tokens_count + 2 >= w->tokens_room) {
        int64_t room = w->tokens_room ? 2 * w->tokens_room : 4096;
        uint32_t *ends = realloc(w->ends, (size_t)room * sizeof *ends);
        if (ends) w->ends = ends;
        uint32_t *names = realloc(w->names, (size_t)room * sizeof *names);
        if (names) w->names = names;
        if (!ends || !names) { w->failed = 1; return; }
        w->tokens_room = room;
    }
    uint32_t id = name_bytes(&w->tokens, &w->token_spans, s, end - s, w->seed);
    if (!id) { w->failed = 1; return; }
    w->names[w->tokens_count] = id;
    w->ends[w->tokens_count + 1] = w->ends[w->tokens_count] + (uint32_t)characters;
    w->tokens_count++;
}

// Adds what one line has to the counts; returns its characters, or -1 - characters for a blank one.
static int64_t line(Work *w, const uint8_t *begin, const uint8_t *end, int64_t *out, unsigned *stops) {
    const uint8_t *classes = w->classes, *s = begin, *start = begin, *last = begin;
    enum { NOTHING, WORD, IDEOGRAPHIC, MARKS } open = NOTHING;
    int64_t characters = 0, started = 0, pieces = 0, piece = 0, longest = 0, sentences = 0;
    int alphabetic = 0, bullet = 0;
    uint32_t mark = 0, previous = SPACE, code;
#define CLOSE()                                                                              \
    do {                                                                                     \
        if (open == WORD || open == IDEOGRAPHIC) {                                           \
            out[WORDS]++;                                                                    \
            out[WORD_CHARACTERS] += characters - started;                                    \
            out[ALPHABETIC_WORDS] += alphabetic;                                             \
            *stops |= stop_word(start, s - start);                                           \
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
        out[HASHES] += code == '#';
        if (class != SPACE) {
            if (!pieces) bullet = (flags & BULLET) != 0;
            if (!piece) pieces++;
            if (++piece > longest) longest = piece;
            last = s + size;
        }
        previous = flags;
        characters++;
        s += size;
        // The rest of a word in ASCII, without ceremony.
        if (open == WORD) {
            const uint8_t *run = s;
            while (s < end && *s < 0x80 && (classes[*s] & CLASS) - 1u < 2u) {
                alphabetic |= classes[*s] == LETTER;
                s++;
            }
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
    if (!pieces) return -1 - characters;
    out[LINES]++;
    out[BULLET_LINES] += bullet;
    before(begin, last, &code);
    out[ENDED_LINES] += (classes[code] & LINE_END) != 0;
    out[ELLIPSIS_LINES] += code == 0x2026 || (last - begin >= 3 && !memcmp(last - 3, "...", 3));
    out[SHORT_LINES] += characters <= SHORT_LINE;
    int found = phrases(begin, end);
    out[LOREM_IPSUM_LINES] += (found & HAS_LOREM) != 0;
    out[CURLY_BRACKET_LINES] += (found & HAS_CURLY) != 0;
    const uint8_t *ended = without_citations(classes, begin, last);
    int good = ended > begin && !(ended - begin >= 3 && !memcmp(ended - 3, "...", 3));
    if (good) { before(begin, ended, &code); good = (classes[code] & LINE_END) != 0; }
    if (longest > LONG_PIECE) out[C4_LONG_PIECE]++;
    else if (!good) out[C4_UNENDED]++;
    else if (pieces < LEAST_PIECES) out[C4_FEW_PIECES]++;
    else if (found & HAS_JAVASCRIPT) out[C4_JAVASCRIPT]++;
    else if (found & HAS_POLICY) out[C4_POLICY]++;
    else { out[C4_LINES]++; out[C4_SENTENCES] += sentences ? sentences : 1; }
    return characters;
}

// Runs of three full stops, and the character that stands for them.
static int64_t ellipses(const uint8_t *s, const uint8_t *end) {
    int64_t found = 0;
    int stops = 0;
    for (; s < end; s++) {
        stops = *s == '.' ? stops + 1 : 0;
        if (stops == 3) { found++; stops = 0; }
        if (*s == 0xe2 && end - s >= 3 && s[1] == 0x80 && s[2] == 0xa6) found++;
    }
    return found;
}

// Keeps the n-grams that occur more than once, still in their order; returns how many.
static int64_t keep_repeated(Work *w, int64_t count) {
    int64_t kept = 0;
    for (int64_t k = 0; k < count; k++) {
        w->places[kept] = w->places[k];
        w->names[kept] = w->names[k];
        kept += w->counts[w->names[k]] > 1;
    }
    return kept;
}

// Of n-grams of tokens, only those that occur more than once are looked at: an n-gram is named by the two (n-1)-grams
// in it, and where one of these occurs once, so does the n-gram.
static void repetition(Work *w, int64_t *out) {
    int64_t tokens = w->tokens_count;
    if (w->names_room < tokens + 2) {
        free(w->counts); free(w->firsts); free(w->places);
        w->names_room = tokens + 2;
        w->counts = malloc((size_t)w->names_room * sizeof *w->counts);
        w->firsts = malloc((size_t)w->names_room * sizeof *w->firsts);
        w->places = malloc((size_t)w->names_room * sizeof *w->places);
        if (!w->counts || !w->firsts || !w->places) { w->names_room = 0; w->failed = 1; return; }
    }
    memset(w->counts, 0, (size_t)(w->tokens.used + 1) * sizeof *w->counts);
    for (int64_t i = 0; i < tokens; i++) { w->places[i] = (uint32_t)i; w->counts[w->names[i]]++; }
    int64_t held = keep_repeated(w, tokens);
    for (int n = 2; n <= LARGEST_GRAM && n <= tokens; n++) {
        if (!empty_table(&w->grams)) { w->failed = 1; return; }
        int64_t found = 0;
        for (int64_t k = 0; k + 1 < held; k++) {
            uint32_t place = w->places[k];
            if (w->places[k + 1] != place + 1) continue;
            uint64_t known = w->grams.used;
            uint32_t id = name(&w->grams, (uint64_t)w->names[k] << 32 | w->names[k + 1], w->seed);
            if (!id) { w->failed = 1; return; }
            if (id > known) { w->counts[id] = 0; w->firsts[id] = place; }
            w->counts[id]++;
            w->places[found] = place;
            w->names[found++] = id;
        }
        if (n <= LARGEST_TOP) {
            uint32_t first = 0, most = 1;
            for (uint64_t id = 1; id <= w->grams.used; id++)
                if (w->counts[id] > most) { most = w->counts[id]; first = w->firsts[id]; }
            out[TOP_2 + n - 2] = (int64_t)(w->ends[first + n] - w->ends[first] + (uint32_t)n - 1) * most;
        }
        held = keep_repeated(w, found);
        if (n > LARGEST_TOP) {
            uint32_t next = 0;
            for (int64_t k = 0; k < held; k++) {
                uint32_t place = w->places[k];
                if (place < next) continue;
                uint32_t id = w->names[k];
                if (w->counts[id]) { w->counts[id] = 0; continue; }  // the first that is met stays
                out[DUPLICATE_5 + n - 5] += w->ends[place + n] - w->ends[place];
                next = place + (uint32_t)n;
            }
        }
    }
}

static void document(Work *w, const uint8_t *s, const uint8_t *end, int64_t *out) {
    unsigned stops = 0;
    const uint8_t *paragraph = NULL, *stop = NULL;
    int64_t held = 0;
    memset(out, 0, COLUMNS * sizeof *out);
    w->tokens_count = 0;
    w->ends[0] = 0;
    if (!empty_table(&w->tokens) || !empty_table(&w->lines) || !empty_table(&w->paragraphs)) { w->failed = 1; return; }
    if (s == end) return;
    out[ELLIPSES] = ellipses(s, end);
    for (;;) {
        const uint8_t *stopped = memchr(s, '\n', (size_t)(end - s));
        const uint8_t *limit = stopped ? stopped : end;
        int64_t characters = line(w, s, limit, out, &stops);
        out[CHARACTERS] += characters < 0 ? -1 - characters : characters;
        if (characters >= 0) {
            uint64_t known = w->lines.used;
            uint32_t id = name_bytes(&w->lines, &w->line_spans, s, limit - s, w->seed);
            if (!id) w->failed = 1;
            if (id <= known) { out[DUPLICATE_LINES]++; out[DUPLICATE_LINE_CHARACTERS] += characters; }
            if (!paragraph) { paragraph = s; held = -1; }
            held += characters + 1;
            stop = limit;
        }
        if (paragraph && (characters < 0 || !stopped)) {
            uint64_t known = w->paragraphs.used;
            uint32_t id = name_bytes(&w->paragraphs, &w->paragraph_spans, paragraph, stop - paragraph, w->seed);
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

// COLUMNS counts a document; -1 when memory is short.
int statistics(const uint8_t *data, const int64_t *offsets, int64_t documents, const uint8_t *classes, uint64_t seed,
               int64_t *out) {
    Work w = {.classes = classes, .seed = seed};
    w.ends = malloc(4096 * sizeof *w.ends);
    w.names = malloc(4096 * sizeof *w.names);
    w.tokens_room = 4096;
    w.failed = !w.ends || !w.names;
    for (int64_t i = 0; i < documents && !w.failed; i++)
        document(&w, data + offsets[i], data + offsets[i + 1], out + i * COLUMNS);
    free(w.tokens.slots); free(w.lines.slots); free(w.paragraphs.slots); free(w.grams.slots);
    free(w.token_spans.items); free(w.line_spans.items); free(w.paragraph_spans.items);
    free(w.ends); free(w.names); free(w.counts); free(w.firsts); free(w.places);
    return w.failed ? -1 : 0;
}
