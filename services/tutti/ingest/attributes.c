// What the attributes of a page's tags cost a parser that compares each with those before it: see attributes.py, which
// counts the same.  One pass over the UTF-8, by the rules of the HTML standard (13.2.5, tokenization).
#include <stdint.h>
#include <string.h>

enum { SPACE = 1, SLASH = 2, CLOSE = 4, EQUALS = 8 };

static const uint8_t KINDS[256] = {
    ['\t'] = SPACE, ['\n'] = SPACE, ['\f'] = SPACE, ['\r'] = SPACE, [' '] = SPACE,
    ['/'] = SLASH,  ['>'] = CLOSE,  ['='] = EQUALS,
};
static const char *const RAW[] = {"script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes"};

static int is_letter(uint8_t c) { c |= 32; return c >= 'a' && c <= 'z'; }

static const uint8_t *find(const uint8_t *s, const uint8_t *end, int c) {
    const uint8_t *found = s < end ? memchr(s, c, (size_t)(end - s)) : NULL;
    return found ? found : end;
}

static int is_name(const uint8_t *s, const uint8_t *end, const char *name) {
    for (; *name; s++, name++)
        if (s >= end || (*s | 32) != (uint8_t)*name) return 0;
    return s < end && (KINDS[*s] & (SPACE | SLASH | CLOSE));
}

static const uint8_t *behind_comment(const uint8_t *s, const uint8_t *end) {
    if (s < end && *s == '>') return s + 1;
    if (end - s >= 2 && s[0] == '-' && s[1] == '>') return s + 2;
    for (; (s = find(s, end, '-')) < end; s++) {
        if (end - s >= 3 && s[1] == '-' && s[2] == '>') return s + 3;
        if (end - s >= 4 && s[1] == '-' && s[2] == '!' && s[3] == '>') return s + 4;
    }
    return end;
}

// Where the text ends that an element holds in which there are no tags; `s` where it is none of those.
static const uint8_t *behind_raw(const uint8_t *name, const uint8_t *s, const uint8_t *end) {
    for (size_t k = 0; k < sizeof RAW / sizeof *RAW; k++) {
        if (!is_name(name, end, RAW[k])) continue;
        for (; (s = find(s, end, '<')) < end; s++)
            if (end - s >= 2 && s[1] == '/' && is_name(s + 2, end, RAW[k])) return s;
        return end;
    }
    return s;
}

// Behind a tag whose name ends at `s`; how many attributes it has.
static const uint8_t *behind_tag(const uint8_t *s, const uint8_t *end, int64_t *attributes) {
    for (*attributes = 0;;) {
        while (s < end && (KINDS[*s] & (SPACE | SLASH))) s++;
        if (s >= end) return end;
        if (*s == '>') return s + 1;
        ++*attributes;
        for (s++; s < end && !KINDS[*s]; s++) {}
        const uint8_t *value = s;
        while (value < end && (KINDS[*value] & SPACE)) value++;
        if (value >= end || *value != '=') continue;
        for (value++; value < end && (KINDS[*value] & SPACE); value++) {}
        if (value < end && (*value == '"' || *value == '\'')) {
            s = find(value + 1, end, *value);
            if (s < end) s++;
        } else
            for (s = value; s < end && !(KINDS[*s] & (SPACE | CLOSE)); s++) {}
    }
}

// The sum over all tags of more than `few` attributes of their number's square.  `raw`: whether scripts and the like hold
// no tags; `foreign`: whether there is a picture or a formula, in which they do.
static int64_t sum(const uint8_t *s, const uint8_t *end, int64_t few, int raw, int *foreign) {
    int64_t total = 0, count;
    while ((s = find(s, end, '<')) < end) {
        if (++s >= end) break;
        if (end - s >= 3 && !memcmp(s, "!--", 3)) { s = behind_comment(s + 3, end); continue; }
        const uint8_t *name = s + (*s == '/');
        if (name >= end || !is_letter(*name)) {
            if (*s == '!' || *s == '?' || *s == '/') s = find(name, end, '>');
            continue;
        }
        const uint8_t *p = name;
        int opens = name == s;
        while (p < end && !(KINDS[*p] & (SPACE | SLASH | CLOSE))) p++;
        *foreign |= is_name(name, end, "svg") || is_name(name, end, "math");
        s = behind_tag(p, end, &count);
        if (count > few) total += count * count;
        if (raw && opens) s = behind_raw(name, s, end);
    }
    return total;
}

// Of both ways to read a page that has a picture or a formula the dearer.
int64_t attributes(const uint8_t *s, int64_t length, int64_t few) {
    int foreign = 0;
    int64_t first = sum(s, s + length, few, 1, &foreign), second = foreign ? sum(s, s + length, few, 0, &foreign) : 0;
    return first > second ? first : second;
}
