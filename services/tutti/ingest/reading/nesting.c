// How deep the tags of a page nest, by one pass over its UTF-8: what tags_too_deep of nesting.py counts by a regular
// expression.  Time is in proportion to the page.  What would need tables of Unicode is left to Python.
#include <stdint.h>
#include <string.h>

enum { SLOTS = 4096, NAMES = SLOTS / 2, FLAT = -1 };
enum { NO, YES, UNKNOWN = -1 };

typedef struct { const uint8_t *name; int64_t length, open; } Element;

static uint8_t lower(uint8_t c) { return c >= 'A' && c <= 'Z' ? c | 32 : c; }
static int is_letter(uint8_t c) { c |= 32; return c >= 'a' && c <= 'z'; }
static int is_digit(uint8_t c) { return c >= '0' && c <= '9'; }

// A letter that is of the Latin alphabet once case is ignored: dotted and dotless i, long s, the sign for kelvin.
static int is_disguised(const uint8_t *s, const uint8_t *end) {
    if (end - s >= 2 && s[0] == 0xc4 && (s[1] == 0xb0 || s[1] == 0xb1)) return 1;
    if (end - s >= 2 && s[0] == 0xc5 && s[1] == 0xbf) return 1;
    return end - s >= 3 && s[0] == 0xe2 && s[1] == 0x84 && s[2] == 0xaa;
}

// The bytes of a space, as Python has it, at `s`; 0 where there is none.
static int space(const uint8_t *s, const uint8_t *end) {
    if (s >= end) return 0;
    if (*s < 0x80) return (*s >= 9 && *s <= 13) || (*s >= 28 && *s <= 32);
    if (*s == 0xc2) return s[1] == 0x85 || s[1] == 0xa0 ? 2 : 0;
    if (*s == 0xe1) return s[1] == 0x9a && s[2] == 0x80 ? 3 : 0;
    if (*s == 0xe3) return s[1] == 0x80 && s[2] == 0x80 ? 3 : 0;
    if (*s != 0xe2) return 0;
    if (s[1] == 0x80) return s[2] <= 0x8a || s[2] == 0xa8 || s[2] == 0xa9 || s[2] == 0xaf ? 3 : 0;
    return s[1] == 0x81 && s[2] == 0x9f ? 3 : 0;
}

static const uint8_t *spaces(const uint8_t *s, const uint8_t *end) {
    for (int n; (n = space(s, end));) s += n;
    return s;
}

static int is_same(const uint8_t *a, const uint8_t *b, int64_t n) {
    for (int64_t k = 0; k < n; k++)
        if (lower(a[k]) != lower(b[k])) return 0;
    return 1;
}

// The slot of a name, in lower or upper case; NULL when there are too many names.
static Element *element(Element *slots, int *used, const uint8_t *name, int64_t length) {
    uint32_t h = 2166136261u;
    for (int64_t k = 0; k < length; k++) h = (h ^ lower(name[k])) * 16777619u;
    for (uint32_t at = (h ^ h >> 15) % SLOTS;; at = (at + 1) % SLOTS) {
        Element *e = slots + at;
        if (!e->name) {
            if (++*used > NAMES) return NULL;
            *e = (Element){name, length, 0};
            return e;
        }
        if (e->length == length && is_same(e->name, name, length)) return e;
    }
}

static const uint8_t *behind_comment(const uint8_t *s, const uint8_t *end) {
    if (s < end && *s == '>') return s + 1;
    if (end - s >= 2 && s[0] == '-' && s[1] == '>') return s + 2;
    for (; (s = memchr(s, '-', (size_t)(end - s))); s++) {
        if (end - s >= 3 && s[1] == '-' && s[2] == '>') return s + 3;
        if (end - s >= 4 && s[1] == '-' && s[2] == '!' && s[3] == '>') return s + 4;
    }
    return end;
}

// Behind the name in the tag that ends a script or a style; NULL where Python has to look.
static const uint8_t *behind_raw(const uint8_t *s, const uint8_t *end, const uint8_t *name, int64_t length) {
    for (; (s = memchr(s, '<', (size_t)(end - s))); s++) {
        if (end - s < 2 || s[1] != '/') continue;
        int64_t k = 0;
        while (k < length && s + 2 + k < end && lower(s[2 + k]) == lower(name[k])) k++;
        if (k == length) return s + 2 + length;
        if (is_disguised(s + 2 + k, end)) return NULL;
    }
    return end;
}

static const uint8_t *behind_attributes(const uint8_t *s, const uint8_t *end) {
    for (;;) {
        const uint8_t *begin = s;
        for (int n; s < end && (n = *s == '/' ? 1 : space(s, end)); s += n) {}
        if (s > begin) continue;
        if (s < end && *s == '=') s++;
        const uint8_t *name = s;
        while (s < end && *s != '/' && *s != '>' && *s != '=' && !space(s, end)) s++;
        if (s == name) return begin;
        const uint8_t *value = spaces(s, end);
        if (value >= end || *value != '=') continue;
        value = spaces(value + 1, end);
        if (value >= end || *value == '>') continue;
        if (*value == '"' || *value == '\'') {
            const uint8_t *close = memchr(value + 1, *value, (size_t)(end - value - 1));
            if (close) s = close + 1;
        } else {
            s = value;
            while (s < end && *s != '>' && !space(s, end)) s++;
        }
    }
}

// Whether more than `most` elements are open at once.  `flat` holds the names that do not nest, each ended by a space.
int tags_too_deep(const uint8_t *s, int64_t length, const uint8_t *flat, int64_t most) {
    const uint8_t *end = s + length;
    Element slots[SLOTS];
    int used = 0;
    int64_t depth = 0;
    memset(slots, 0, sizeof slots);
    for (const uint8_t *stop; (stop = (const uint8_t *)strchr((const char *)flat, ' ')); flat = stop + 1)
        element(slots, &used, flat, stop - flat)->open = FLAT;
    while (s < end && (s = memchr(s, '<', (size_t)(end - s)))) {
        s++;
        if (end - s >= 3 && !memcmp(s, "!--", 3)) { s = behind_comment(s + 3, end); continue; }
        int closes = s < end && *s == '/';
        const uint8_t *name = s + closes;
        if (is_disguised(name, end)) return UNKNOWN;
        if (name >= end || !is_letter(*name)) continue;
        const uint8_t *p = name + 1;
        while (p < end && (is_letter(*p) || is_digit(*p))) p++;
        if (is_disguised(p, end)) return UNKNOWN;
        int64_t size = p - name;
        int raw = !closes && ((size == 6 && is_same(name, (const uint8_t *)"script", 6)) ||
                              (size == 5 && is_same(name, (const uint8_t *)"style", 5)));
        if (raw && p < end && *p >= 0x80) return UNKNOWN;  // it may be a letter
        if (raw && (p == end || *p != '_')) {
            if (!(s = behind_raw(p, end, name, size))) return UNKNOWN;
            continue;
        }
        s = behind_attributes(p, end);
        Element *e = element(slots, &used, name, size);
        if (!e) return UNKNOWN;
        if (e->open == FLAT) continue;
        if (!closes) {
            e->open++;
            if (++depth > most) return YES;
        } else if (e->open) {
            e->open--;
            depth--;
        }
    }
    return NO;
}
