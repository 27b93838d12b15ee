// Byte-level BPE over words split by Llama 3's pattern: words and their counts, merges learned from them, ids of texts.
//
// bytepairs.py says what each result means; tokenizer.py, and the training, give the same by the library `tokenizers`.
// Text is valid UTF-8. Functions give 0, or a count, or -1 when memory is out; what they allocate is freed by `bpe_forget`.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { OTHER, LETTER, NUMBER, SPACE };
enum { SHORT = 22, FEW = 10, TINY = 32, SMALL = 512, SOON = 8 };
enum { LONGEST = 1024 };  // characters of a word that is learned from
#define NONE UINT32_MAX

static inline uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ULL;
    return x ^ (x >> 32);
}

static inline uint64_t digest(const uint8_t *s, int64_t n, uint64_t seed) {
    uint64_t h = seed ^ ((uint64_t)n * 0x9e3779b97f4a7c15ULL), v;
    for (; n >= 8; s += 8, n -= 8) {
        memcpy(&v, s, 8);
        h = mix(h ^ v);
    }
    v = 0;
    if (n >= 4) {
        uint32_t low, high;
        memcpy(&low, s, 4);
        memcpy(&high, s + n - 4, 4);
        v = (uint64_t)high << 32 | low;
    } else if (n) {
        v = (uint64_t)s[0] << 16 | (uint64_t)s[n >> 1] << 8 | s[n - 1];
    }
    return mix(h ^ v);
}

// The class of the character at `s`, and how many bytes it has.
static inline int class_at(const uint8_t *s, const uint8_t *classes, int *size) {
    uint32_t c = *s;
    if (c < 0x80) {
        *size = 1;
    } else if (c < 0xe0) {
        *size = 2;
        c = (c & 0x1f) << 6 | (s[1] & 0x3fu);
    } else if (c < 0xf0) {
        *size = 3;
        c = (c & 0x0f) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu);
    } else {
        *size = 4;
        c = (c & 0x07) << 18 | (s[1] & 0x3fu) << 12 | (s[2] & 0x3fu) << 6 | (s[3] & 0x3fu);
    }
    return classes[c];
}

static inline const uint8_t *run(const uint8_t *s, const uint8_t *end, const uint8_t *classes, int kind, int64_t most) {
    int size;
    while (s < end && most-- && class_at(s, classes, &size) == kind) s += size;
    return s;
}

// How long a contraction is behind its apostrophe; 0: there is none. U+017F is an s in any case.
static int contraction(const uint8_t *s, int64_t n) {
    if (n < 1) return 0;
    int first = *s | 0x20, second = n > 1 ? s[1] | 0x20 : 0;
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return 1;
    if ((first == 'r' || first == 'v') && second == 'e') return 2;
    if (first == 'l' && second == 'l') return 2;
    return n > 1 && s[0] == 0xc5 && s[1] == 0xbf ? 2 : 0;
}

static inline int breaks(uint8_t c) { return c == '\r' || c == '\n'; }

// Where the word that begins at `s` ends: the alternatives of the pattern in their order.
static const uint8_t *word_end(const uint8_t *s, const uint8_t *end, const uint8_t *classes) {
    int size, kind = class_at(s, classes, &size), following = -1, ignored;
    const uint8_t *next = s + size;
    if (*s == '\'') {
        int more = contraction(next, end - next);
        if (more) return next + more;
    }
    if (kind == LETTER) return run(next, end, classes, LETTER, INT64_MAX);
    if (kind == NUMBER) return run(next, end, classes, NUMBER, 2);
    if (next < end) following = class_at(next, classes, &ignored);
    if (following == LETTER && !breaks(*s)) return run(next, end, classes, LETTER, INT64_MAX);
    if (kind == OTHER || (*s == ' ' && following == OTHER)) {
        next = run(next, end, classes, OTHER, INT64_MAX);
        while (next < end && breaks(*next)) next++;
        return next;
    }
    const uint8_t *last = s, *broken = NULL;
    for (next = s; next < end && class_at(next, classes, &size) == SPACE; next += size) {
        if (breaks(*next)) broken = next + 1;
        last = next;
    }
    if (broken) return broken;
    return next == end || last == s ? next : last;
}

// ---- ids of texts

typedef struct {
    uint64_t pair;
    uint32_t rank, id;  // rank NONE: an empty place
} Merge;

typedef struct {
    uint8_t length, count, bytes[SHORT];
    uint32_t ids[FEW];
} Known;  // a word and its ids

typedef struct {
    uint64_t key;  // rank, position
    uint32_t id;
} Candidate;

typedef struct {
    const Merge *merges;
    uint64_t mask;
    const uint32_t *bytes;
} Vocabulary;

typedef struct {
    uint32_t *ids, *previous, *next;
    Candidate *heap;
    int64_t held;
} Symbols;

static inline const Merge *merge_of(const Vocabulary *v, uint32_t left, uint32_t right) {
    uint64_t pair = (uint64_t)left << 32 | right;
    for (uint64_t at = mix(pair) & v->mask;; at = (at + 1) & v->mask) {
        const Merge *found = &v->merges[at];
        if (found->rank == NONE) return NULL;
        if (found->pair == pair) return found;
    }
}

// Fill an empty table (every rank NONE) of `mask` + 1 places; of equal pairs the last counts.
void bpe_table(const uint32_t *merges, int64_t count, Merge *table, uint64_t mask) {
    for (int64_t rank = 0; rank < count; rank++) {
        const uint32_t *m = merges + 3 * rank;
        uint64_t pair = (uint64_t)m[0] << 32 | m[1], at = mix(pair) & mask;
        while (table[at].rank != NONE && table[at].pair != pair) at = (at + 1) & mask;
        table[at] = (Merge){pair, (uint32_t)rank, m[2]};
    }
}

static void offer(Symbols *w, const Vocabulary *v, uint32_t at) {
    const Merge *found = merge_of(v, w->ids[at], w->ids[w->next[at]]);
    if (!found) return;
    Candidate new = {(uint64_t)found->rank << 32 | at, found->id};
    int64_t place = w->held++;
    for (; place && w->heap[(place - 1) / 2].key > new.key; place = (place - 1) / 2) {
        w->heap[place] = w->heap[(place - 1) / 2];
    }
    w->heap[place] = new;
}

static Candidate least(Symbols *w) {
    Candidate top = w->heap[0], moved = w->heap[--w->held];
    int64_t place = 0;
    for (int64_t child; (child = 2 * place + 1) < w->held; place = child) {
        if (child + 1 < w->held && w->heap[child + 1].key < w->heap[child].key) child++;
        if (w->heap[child].key >= moved.key) break;
        w->heap[place] = w->heap[child];
    }
    w->heap[place] = moved;
    return top;
}

// The merge of the least rank first, the leftmost of equal ones. A candidate is old when its place has another merge now.
static int64_t merged(Symbols *w, const Vocabulary *v, const uint8_t *s, int64_t n, uint32_t *out) {
    w->held = 0;
    for (int64_t i = 0; i < n; i++) {
        w->ids[i] = v->bytes[s[i]];
        w->previous[i] = i ? (uint32_t)i - 1 : NONE;
        w->next[i] = i + 1 < n ? (uint32_t)i + 1 : NONE;
    }
    for (int64_t i = 0; i + 1 < n; i++) offer(w, v, (uint32_t)i);
    while (w->held) {
        Candidate top = least(w);
        uint32_t at = (uint32_t)top.key, right;
        if (w->ids[at] == NONE || (right = w->next[at]) == NONE) continue;
        const Merge *now = merge_of(v, w->ids[at], w->ids[right]);
        if (!now || now->id != top.id) continue;
        w->ids[at] = top.id;
        w->ids[right] = NONE;
        w->next[at] = w->next[right];
        if (w->next[at] != NONE) w->previous[w->next[at]] = at;
        if (w->previous[at] != NONE) offer(w, v, w->previous[at]);
        if (w->next[at] != NONE) offer(w, v, at);
    }
    int64_t count = 0;
    for (uint32_t at = 0; at != NONE; at = w->next[at]) out[count++] = w->ids[at];
    return count;
}

// The same for few symbols, which are soon looked through.
static int64_t merged_few(const Vocabulary *v, const uint8_t *s, int64_t n, uint32_t *ids) {
    const Merge *pairs[TINY];
    for (int64_t i = 0; i < n; i++) ids[i] = v->bytes[s[i]];
    for (int64_t i = 0; i + 1 < n; i++) pairs[i] = merge_of(v, ids[i], ids[i + 1]);
    for (;;) {
        int64_t at = -1;
        uint32_t rank = NONE;
        for (int64_t i = 0; i + 1 < n; i++) {
            if (pairs[i] && pairs[i]->rank < rank) rank = pairs[i]->rank, at = i;
        }
        if (at < 0) return n;
        ids[at] = pairs[at]->id;
        n--;
        for (int64_t i = at + 1; i < n; i++) ids[i] = ids[i + 1];
        for (int64_t i = at + 1; i + 1 < n; i++) pairs[i] = pairs[i + 1];
        if (at) pairs[at - 1] = merge_of(v, ids[at - 1], ids[at]);
        if (at + 1 < n) pairs[at] = merge_of(v, ids[at], ids[at + 1]);
    }
}

static int64_t word_ids(const Vocabulary *v, const uint8_t *s, int64_t n, uint32_t *out) {
    if (n == 1) {
        *out = v->bytes[*s];
        return 1;
    }
    if (n <= TINY) return merged_few(v, s, n, out);
    if (n <= SMALL) {
        uint32_t parts[3 * SMALL];
        Candidate heap[3 * SMALL];
        Symbols w = {parts, parts + SMALL, parts + 2 * SMALL, heap, 0};
        return merged(&w, v, s, n, out);
    }
    Symbols w = {malloc(n * 4), malloc(n * 4), malloc(n * 4), malloc(3 * n * sizeof(Candidate)), 0};
    int64_t count = w.ids && w.previous && w.next && w.heap ? merged(&w, v, s, n, out) : -1;
    free(w.ids), free(w.previous), free(w.next), free(w.heap);
    return count;
}

// `out`: room for as many ids as the texts have bytes; `counts`: ids of each text; `known`: `known_mask` + 1 places that
// this thread alone uses, all zero at first.
int64_t bpe_encode(const uint8_t *data, const int64_t *offsets, int64_t texts, const uint8_t *classes,
                   const Merge *merges, uint64_t mask, const uint32_t *bytes, Known *known, uint64_t known_mask,
                   uint32_t *out, int64_t *counts) {
    Vocabulary v = {merges, mask, bytes};
    for (int64_t text = 0; text < texts; text++) {
        const uint8_t *s = data + offsets[text], *end = data + offsets[text + 1];
        const uint32_t *begin = out;
        while (s < end) {
            const uint8_t *next = word_end(s, end, classes);
            int64_t n = next - s, count;
            Known *place = n <= SHORT ? &known[digest(s, n, 0) & known_mask] : NULL;
            if (place && place->length == n && !memcmp(place->bytes, s, n)) {
                count = place->count;
                for (int64_t i = 0; i < count; i++) out[i] = place->ids[i];
            } else {
                if ((count = word_ids(&v, s, n, out)) < 0) return -1;
                if (place && count <= FEW) {
                    place->length = (uint8_t)n;
                    place->count = (uint8_t)count;
                    memcpy(place->bytes, s, n);
                    memcpy(place->ids, out, 4 * count);
                }
            }
            out += count;
            s = next;
        }
        counts[text] = out - begin;
    }
    return 0;
}

// ---- words and their counts

typedef struct {
    uint8_t *bytes;
    int64_t *begins, *counts, words, word_room, bytes_room;  // word i: bytes[begins[i]] until bytes[begins[i + 1]]
    uint32_t *places;                                        // word + 1; 0: empty
    uint64_t mask, seed;
} Words;

static void *grown(void *old, int64_t size) { return realloc(old, (size_t)size); }

Words *bpe_words(uint64_t seed) {
    Words *w = calloc(1, sizeof(Words));
    if (!w) return NULL;
    w->mask = (1 << 12) - 1, w->seed = seed, w->word_room = 1 << 11, w->bytes_room = 1 << 14;
    w->places = calloc(w->mask + 1, 4);
    w->bytes = malloc(w->bytes_room);
    w->begins = malloc((w->word_room + 1) * 8);
    w->counts = malloc(w->word_room * 8);
    if (!w->places || !w->bytes || !w->begins || !w->counts) {
        free(w->places), free(w->bytes), free(w->begins), free(w->counts), free(w);
        return NULL;
    }
    w->begins[0] = 0;
    return w;
}

void bpe_forget(Words *w) {
    free(w->places), free(w->bytes), free(w->begins), free(w->counts), free(w);
}

int64_t bpe_word_count(const Words *w) { return w->words; }

static int add_word(Words *w, const uint8_t *s, int64_t n) {
    uint64_t at = digest(s, n, w->seed) & w->mask;
    for (uint32_t found; (found = w->places[at]); at = (at + 1) & w->mask) {
        const int64_t *begin = w->begins + found - 1;
        if (begin[1] - begin[0] == n && !memcmp(w->bytes + begin[0], s, n)) {
            w->counts[found - 1]++;
            return 0;
        }
    }
    int64_t used = w->begins[w->words];
    if (used + n > w->bytes_room) {
        int64_t room = 2 * (used + n);
        uint8_t *bytes = grown(w->bytes, room);
        if (!bytes) return -1;
        w->bytes = bytes, w->bytes_room = room;
    }
    if (w->words == w->word_room) {
        int64_t room = w->word_room + w->word_room / 2;
        int64_t *begins = grown(w->begins, (room + 1) * 8), *counts;
        if (!begins) return -1;
        w->begins = begins;
        if (!(counts = grown(w->counts, room * 8))) return -1;
        w->counts = counts, w->word_room = room;
    }
    memcpy(w->bytes + used, s, n);
    w->places[at] = (uint32_t)w->words + 1;
    w->counts[w->words++] = 1;
    w->begins[w->words] = used + n;
    if ((uint64_t)w->words * 4 > 3 * w->mask) {
        uint64_t mask = 2 * w->mask + 1;
        uint32_t *places = calloc(mask + 1, 4);
        if (!places) return -1;
        for (int64_t word = 0; word < w->words; word++) {
            const int64_t *begin = w->begins + word;
            at = digest(w->bytes + begin[0], begin[1] - begin[0], w->seed) & mask;
            while (places[at]) at = (at + 1) & mask;
            places[at] = (uint32_t)word + 1;
        }
        free(w->places);
        w->places = places, w->mask = mask;
    }
    return 0;
}

// Count the words of some texts; a word of more than LONGEST characters counts as its parts of so many.
int64_t bpe_count(Words *w, const uint8_t *data, const int64_t *offsets, int64_t texts, const uint8_t *classes) {
    for (int64_t text = 0; text < texts; text++) {
        const uint8_t *s = data + offsets[text], *end = data + offsets[text + 1];
        while (s < end) {
            const uint8_t *next = word_end(s, end, classes);
            while (next - s > LONGEST) {
                const uint8_t *part = s;
                for (int64_t characters = 0; part < next && (characters < LONGEST || (*part & 0xc0) == 0x80); part++) {
                    characters += (*part & 0xc0) != 0x80;
                }
                if (part == next) break;
                if (add_word(w, s, part - s)) return -1;
                s = part;
            }
            if (add_word(w, s, next - s)) return -1;
            s = next;
        }
    }
    return 0;
}

// ---- merges learned from words

typedef struct {
    uint64_t pair;
    int64_t count;
} Pair;  // count 0 and pair 0: an empty place (the pair 0, 0 is kept beside)

typedef struct {
    int64_t count;
    uint64_t pair;
    union {
        uint32_t *words;  // room 0: they belong to all
        uint32_t few[2];  // all of them while there are no more
    };
    uint32_t held, room;
} Entry;  // a pair as it was counted, and words that had it

typedef struct {
    const uint32_t *bytes;
    uint32_t *symbols, *lengths;
    int64_t *begins, words;
    const int64_t *counts;
    Pair *pairs, zero;
    uint64_t pair_mask;
    int64_t pair_count;
    Entry *heap;
    int64_t held, heap_room;
    Entry *fresh;  // pairs of the merge under way
    int64_t fresh_held, fresh_room;
    uint32_t *left, *right;  // by their other token, place in `fresh` + 1
} Learning;

static inline const uint32_t *words_of(const Entry *entry) { return entry->held > 2 ? entry->words : entry->few; }

static void forget(const Entry *entry) {
    if (entry->held > 2 && entry->room) free(entry->words);
}

// Until the next call.
static int64_t *count_of(Learning *l, uint64_t pair) {
    if (!pair) return &l->zero.count;
    if ((uint64_t)l->pair_count * 4 > 3 * l->pair_mask) {
        uint64_t mask = 2 * l->pair_mask + 1;
        Pair *pairs = calloc(mask + 1, sizeof(Pair));
        if (!pairs) return NULL;
        for (uint64_t i = 0; i <= l->pair_mask; i++) {
            if (!l->pairs[i].pair) continue;
            uint64_t at = mix(l->pairs[i].pair) & mask;
            while (pairs[at].pair) at = (at + 1) & mask;
            pairs[at] = l->pairs[i];
        }
        free(l->pairs);
        l->pairs = pairs, l->pair_mask = mask;
    }
    uint64_t at = mix(pair) & l->pair_mask;
    for (; l->pairs[at].pair; at = (at + 1) & l->pair_mask) {
        if (l->pairs[at].pair == pair) return &l->pairs[at].count;
    }
    l->pair_count++;
    l->pairs[at].pair = pair;
    return &l->pairs[at].count;
}

// The more frequent comes first, of equally frequent ones the smaller pair.
static inline int before(const Entry *one, const Entry *other) {
    return one->count != other->count ? one->count > other->count : one->pair < other->pair;
}

static int push(Learning *l, Entry new) {
    if (l->held == l->heap_room) {
        int64_t room = l->heap_room + l->heap_room / 2 + 1024;
        Entry *heap = grown(l->heap, room * (int64_t)sizeof(Entry));
        if (!heap) return -1;
        l->heap = heap, l->heap_room = room;
    }
    int64_t place = l->held++;
    for (; place && before(&new, &l->heap[(place - 1) / 4]); place = (place - 1) / 4) {
        l->heap[place] = l->heap[(place - 1) / 4];
    }
    l->heap[place] = new;
    return 0;
}

static void sink(Learning *l, int64_t place) {
    Entry moved = l->heap[place];
    for (int64_t child; (child = 4 * place + 1) < l->held; place = child) {
        int64_t last = child + 3 < l->held ? child + 3 : l->held - 1;
        for (int64_t other = child + 1; other <= last; other++) {
            if (before(&l->heap[other], &l->heap[child])) child = other;
        }
        if (!before(&l->heap[child], &moved)) break;
        l->heap[place] = l->heap[child];
    }
    l->heap[place] = moved;
}

// The most frequent pair, counted anew when it was counted long ago.
static Entry most(Learning *l) {
    for (;;) {
        int64_t now = *count_of(l, l->heap[0].pair);
        if (now == l->heap[0].count) break;
        l->heap[0].count = now;
        sink(l, 0);
    }
    Entry top = l->heap[0];
    l->heap[0] = l->heap[--l->held];
    if (l->held) sink(l, 0);
    return top;
}

// A pair with a new token came up in a word; `place`: of its other token.
static int came_up(Learning *l, uint64_t pair, uint32_t *place, int64_t count, uint32_t word) {
    if (!*place) {
        if (l->fresh_held == l->fresh_room) {
            int64_t room = 2 * l->fresh_room + 64;
            Entry *fresh = grown(l->fresh, room * (int64_t)sizeof(Entry));
            if (!fresh) return -1;
            l->fresh = fresh, l->fresh_room = room;
        }
        l->fresh[l->fresh_held] = (Entry){.pair = pair};
        *place = (uint32_t)++l->fresh_held;
    }
    Entry *entry = &l->fresh[*place - 1];
    entry->count += count;
    if (entry->held && words_of(entry)[entry->held - 1] == word) return 0;
    if (entry->held == 2 || (entry->held > 2 && entry->held == entry->room)) {
        uint32_t room = 2 * entry->held;
        uint32_t *words = grown(entry->held > 2 ? entry->words : NULL, room * 4);
        if (!words) return -1;
        if (entry->held == 2) memcpy(words, entry->few, sizeof entry->few);
        entry->words = words, entry->room = room;
    }
    (entry->held < 2 ? entry->few : entry->words)[entry->held] = word;
    entry->held++;
    return 0;
}

static int merge_word(Learning *l, uint32_t word, uint32_t left, uint32_t right, uint32_t new) {
    uint32_t *s = l->symbols + l->begins[word], n = l->lengths[word], to = 0;
    int64_t count = l->counts[word];
    for (uint32_t from = 0; from < n;) {
        if (s[from] != left || from + 1 == n || s[from + 1] != right) {
            s[to++] = s[from++];
            continue;
        }
        from += 2;
        if (to) {
            uint32_t last = s[to - 1];
            if (came_up(l, (uint64_t)last << 32 | new, &l->left[last], count, word)) return -1;
        }
        s[to++] = new;
        if (from == n) break;
        uint32_t next = s[from];
        if (came_up(l, (uint64_t)new << 32 | next, &l->right[next], count, word)) return -1;
    }
    l->lengths[word] = to;
    return 0;
}

// What `merge_word` looks at lies anywhere in memory: the words that come soon, and then later, are on their way before.
static inline void fetch(const Learning *l, uint32_t soon, uint32_t later) {
    __builtin_prefetch(&l->symbols[l->begins[soon]]);
    __builtin_prefetch(&l->begins[later]), __builtin_prefetch(&l->lengths[later]), __builtin_prefetch(&l->counts[later]);
}

// Count what came up, each in the place of a pair with `left` or `right`, and queue it.
static int push_fresh(Learning *l, uint32_t left, uint32_t right, uint32_t new) {
    for (int64_t i = 0; i < l->fresh_held; i++) {
        Entry *entry = &l->fresh[i];
        uint32_t first = (uint32_t)(entry->pair >> 32), second = (uint32_t)entry->pair;
        uint64_t gone = second == new ? (uint64_t)first << 32 | left : (uint64_t)right << 32 | second;
        int64_t *count = count_of(l, gone);
        if (!count) return -1;
        *count -= entry->count;
        if (!(count = count_of(l, entry->pair))) return -1;
        *count += entry->count;
        if (second == new) {
            l->left[first] = 0;
        } else {
            l->right[second] = 0;
        }
    }
    for (int64_t i = 0; i < l->fresh_held; i++) {
        Entry *entry = &l->fresh[i];
        int64_t *count = count_of(l, entry->pair);
        if (!count) return -1;
        entry->count = *count;
        if (entry->held > 2) {
            uint32_t *fit = grown(entry->words, entry->held * 4);  // most have few words
            if (fit) entry->words = fit, entry->room = entry->held;
        }
        if (entry->count > 0) {
            if (push(l, *entry)) return -1;
        } else {
            forget(entry);
        }
        entry->held = 0;
    }
    l->fresh_held = 0;
    return 0;
}

// Every pair of the words, with the words that have it: counted, then filled in.
static int first_pairs(Learning *l, uint32_t **lists) {
    int64_t pairs = 0, total = 0;
    for (int64_t word = 0; word < l->words; word++) {
        const uint32_t *s = l->symbols + l->begins[word];
        for (uint32_t i = 0; i + 1 < l->lengths[word]; i++) {
            int64_t *count = count_of(l, (uint64_t)s[i] << 32 | s[i + 1]);
            if (!count) return -1;
            *count += l->counts[word];
        }
    }
    // Symbols are bytes here: 65,536 pairs.
    int64_t *at = calloc((1 << 16) + 1, 8), *seen = malloc((1 << 16) * 8);
    if (!at || !seen) goto out_of_memory;
    for (int fill = 0; fill < 2; fill++) {
        memset(seen, 0xff, (1 << 16) * 8);
        for (int64_t word = 0; word < l->words; word++) {
            const uint32_t *s = l->symbols + l->begins[word];
            for (uint32_t i = 0; i + 1 < l->lengths[word]; i++) {
                uint32_t pair = s[i] << 8 | s[i + 1];
                if (seen[pair] == word) continue;
                seen[pair] = word;
                if (fill) {
                    (*lists)[at[pair]++] = (uint32_t)word;
                } else {
                    at[pair + 1]++, total++;
                }
            }
        }
        if (fill) break;
        for (int64_t pair = 0; pair < 1 << 16; pair++) at[pair + 1] += at[pair];
        if (!(*lists = malloc(total * 4 + 4))) goto out_of_memory;
    }
    for (int64_t pair = 0, begin = 0; pair < 1 << 16; begin = at[pair++]) {
        if (at[pair] == begin) continue;
        uint64_t whole = (uint64_t)(pair >> 8) << 32 | (pair & 0xff);
        Entry entry = {.count = *count_of(l, whole), .pair = whole, .held = (uint32_t)(at[pair] - begin)};
        if (entry.held > 2) {
            entry.words = *lists + begin;
        } else {
            memcpy(entry.few, *lists + begin, entry.held * 4);
        }
        if (push(l, entry)) goto out_of_memory;
        pairs++;
    }
    free(at), free(seen);
    return 0;
out_of_memory:
    free(at), free(seen);
    return -1;
}

static int begin(Learning *l, const Words *w, int64_t vocabulary) {
    int64_t total = w->begins[w->words];
    l->words = w->words, l->counts = w->counts, l->begins = w->begins;
    l->symbols = malloc(total * 4 + 4), l->lengths = malloc(w->words * 4 + 4);
    l->pair_mask = (1 << 17) - 1, l->pairs = calloc(l->pair_mask + 1, sizeof(Pair));
    l->left = calloc(vocabulary + 1, 4), l->right = calloc(vocabulary + 1, 4);
    if (!l->symbols || !l->lengths || !l->pairs || !l->left || !l->right) return -1;
    for (int64_t i = 0; i < total; i++) l->symbols[i] = l->bytes[w->bytes[i]];
    for (int64_t word = 0; word < w->words; word++) l->lengths[word] = (uint32_t)(w->begins[word + 1] - w->begins[word]);
    return 0;
}

// Learn merges (left, right, token; three uint32 each) until there are `vocabulary` tokens, or no pair comes `least`
// times. How many; `*made` is freed by the caller through `bpe_free`.
int64_t bpe_learn(const Words *w, const uint32_t *bytes, int64_t vocabulary, int64_t least_count, uint32_t **made) {
    Learning l = {.bytes = bytes};
    uint32_t *lists = NULL, *out = malloc(12 * vocabulary);
    int64_t count = 0;
    int failed = !out || begin(&l, w, vocabulary) || first_pairs(&l, &lists);
    for (int64_t new = 256; !failed && new < vocabulary && l.held; new++) {
        Entry top = most(&l);
        uint32_t left = (uint32_t)(top.pair >> 32), right = (uint32_t)top.pair;
        const uint32_t *words = words_of(&top);
        int ends = top.count < 1 || top.count < least_count;
        for (uint32_t i = 0; !ends && !failed && i < top.held; i++) {
            if (i + 2 * SOON < top.held) fetch(&l, words[i + SOON], words[i + 2 * SOON]);
            failed = merge_word(&l, words[i], left, right, (uint32_t)new);
        }
        forget(&top);
        if (ends) break;
        failed = failed || push_fresh(&l, left, right, (uint32_t)new);
        out[3 * count] = left, out[3 * count + 1] = right, out[3 * count + 2] = (uint32_t)new;
        count++;
    }
    for (int64_t i = 0; i < l.held; i++) forget(&l.heap[i]);
    for (int64_t i = 0; i < l.fresh_held; i++) forget(&l.fresh[i]);
    free(l.symbols), free(l.lengths), free(l.pairs), free(l.heap), free(l.fresh), free(l.left), free(l.right), free(lists);
    if (failed) free(out), out = NULL, count = -1;
    *made = out;
    return count;
}

void bpe_free(void *made) { free(made); }
