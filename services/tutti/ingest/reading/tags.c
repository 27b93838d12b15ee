// What the tags of a page cost a parser: the attributes that it compares with those before them in a tag, or in those
// that a tag is merged with, and the formatting elements that it rebuilds.  See tags.py and formatting.py, which count
// the same.  One pass over the UTF-8, by the rules of the HTML standard (13.2.5, tokenization).
#include <stdint.h>
#include <string.h>

enum { SPACE = 1, SLASH = 2, CLOSE = 4, EQUALS = 8 };

static const uint8_t KINDS[256] = {
    ['\t'] = SPACE, ['\n'] = SPACE, ['\f'] = SPACE, ['\r'] = SPACE, [' '] = SPACE,
    ['/'] = SLASH,  ['>'] = CLOSE,  ['='] = EQUALS,
};
static const char *const RAW[] = {"script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes"};

// Elements by their names: those that format come first, then those that end the reach of their tags.
enum {
    OTHER, A, B, BIG, CODE, EM, FONT, I, NOBR, S, SMALL, STRIKE, STRONG, TT, U,
    TABLE, TD, TH, CAPTION, OBJECT, APPLET, MARQUEE, TEMPLATE, SELECT, SVG, MATH,
};
static const char *const NAMES[] = {
    "", "a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u",
    "table", "td", "th", "caption", "object", "applet", "marquee", "template", "select", "svg", "math",
};
enum { LONGEST = 8, ENTRIES = 512, SCOPES = 256, IDENTICAL = 3, AGAIN = 64 };

static const int64_t ENDLESS = (int64_t)1 << 60;

typedef struct { const uint8_t *rest; int64_t length, weight, scope; int name; } Entry;
typedef struct { int name; int64_t id; } Scope;

// What formatting.py calls Formatting.
typedef struct {
    int64_t few, most, weight, rebuilt, ids;
    int entries, scopes, doubtful, lost;
    Entry entry[ENTRIES];
    Scope scope[SCOPES];
} Formatting;

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

static const char *raw_name(const uint8_t *s, const uint8_t *end) {
    for (size_t k = 0; k < sizeof RAW / sizeof *RAW; k++)
        if (is_name(s, end, RAW[k])) return RAW[k];
    return NULL;
}

static int known(const uint8_t *s, int64_t length, const uint8_t *end) {
#define TRY(each) if (is_name(s, end, NAMES[each])) return each;
    if (length > LONGEST) return OTHER;
    switch (*s | 32) {
    case 'a': TRY(A) TRY(APPLET) break;
    case 'b': TRY(B) TRY(BIG) break;
    case 'c': TRY(CODE) TRY(CAPTION) break;
    case 'e': TRY(EM) break;
    case 'f': TRY(FONT) break;
    case 'i': TRY(I) break;
    case 'm': TRY(MATH) TRY(MARQUEE) break;
    case 'n': TRY(NOBR) break;
    case 'o': TRY(OBJECT) break;
    case 's': TRY(S) TRY(SVG) TRY(SMALL) TRY(STRIKE) TRY(STRONG) TRY(SELECT) break;
    case 't': TRY(TT) TRY(TD) TRY(TH) TRY(TABLE) TRY(TEMPLATE) break;
    case 'u': TRY(U) break;
    }
#undef TRY
    return OTHER;
}

static int is_cell(int name) { return name == TD || name == TH || name == CAPTION; }
static int is_doubtful(int name) { return name == SELECT || name == SVG || name == MATH; }
static int64_t scope_of(const Formatting *f) { return f->scopes ? f->scope[f->scopes - 1].id : 0; }

static int identical(const Entry *a, const Entry *b) {
    return a->name == b->name && a->length == b->length && !memcmp(a->rest, b->rest, (size_t)a->length);
}

static void drop(Formatting *f, int at) {
    memmove(f->entry + at, f->entry + at + 1, (size_t)(--f->entries - at) * sizeof *f->entry);
}

static void opens(Formatting *f, Entry new) {
    int all = 0, here = 0, first = 0;
    for (int k = f->entries - 1; k >= 0; k--) {
        if (!identical(f->entry + k, &new)) continue;
        all++;
        if (f->entry[k].scope == new.scope) { here++; first = k; }
    }
    if (all < IDENTICAL) f->weight += new.weight;
    if (here >= IDENTICAL) drop(f, first);
    if (f->entries < ENTRIES) f->entry[f->entries++] = new;
}

static void closes(Formatting *f, int name) {
    int k = f->entries - 1, all = 0;
    while (k >= 0 && f->entry[k].name != name) k--;
    if (k < 0 || f->entry[k].scope != scope_of(f)) return;
    for (int j = 0; j < f->entries; j++) all += identical(f->entry + j, f->entry + k);
    if (all <= IDENTICAL) f->weight -= f->entry[k].weight;
    drop(f, k);
}

static void begins(Formatting *f, int name) {
    Scope *top = f->scopes ? f->scope + f->scopes - 1 : NULL;
    int in_table = top && is_cell(name) && !f->doubtful;
    if (in_table && is_cell(top->name) && top->id % 2) { top->name = name; return; }
    if (f->scopes == SCOPES) { f->lost = 1; return; }
    int64_t id = in_table && top->name == TABLE ? top->id + 1 : (f->ids += 2);
    f->scope[f->scopes++] = (Scope){name, id};
    f->doubtful += is_doubtful(name);
}

static void ends(Formatting *f, int name) {
    const Scope *top = f->scope + f->scopes - 1;
    if (!f->scopes) return;
    if (top->name == name) f->scopes--;
    else if (name == TABLE && f->scopes > 1 && is_cell(top->name) && top[-1].name == TABLE) f->scopes -= 2;
    else return;
    f->doubtful -= is_doubtful(name);
}

// A tag whose name ends at `rest`; `heard`: whether its end counts.
static void tag(Formatting *f, const uint8_t *name, const uint8_t *rest, const uint8_t *close, const uint8_t *end,
                int64_t attributes, int is_end, int is_empty, int heard) {
    if (f->rebuilt > f->most) return;
    if (f->weight > f->few) f->rebuilt += f->weight - f->few;
    int kind = known(name, rest - name, end);
    if (kind == OTHER) return;
    if (kind < TABLE) {
        if (heard && (is_end || kind == A || kind == NOBR)) closes(f, kind);
        if (!is_end) opens(f, (Entry){rest, close - rest, 1 + attributes, scope_of(f), kind});
    } else if (!is_end) {
        if (!(is_empty && heard && (kind == SVG || kind == MATH))) begins(f, kind);
    } else if (heard)
        ends(f, kind);
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

// Where the text ends that an element holds in which there are no tags.
static const uint8_t *behind_raw(const char *name, const uint8_t *s, const uint8_t *end) {
    for (; (s = find(s, end, '<')) < end; s++)
        if (end - s >= 2 && s[1] == '/' && is_name(s + 2, end, name)) return s;
    return end;
}

// Behind a tag whose name ends at `s`; how many attributes it has, and whether it closes itself.
static const uint8_t *behind_tag(const uint8_t *s, const uint8_t *end, int64_t *attributes, int *is_empty) {
    for (*attributes = 0, *is_empty = 0;;) {
        const uint8_t *begin = s;
        while (s < end && (KINDS[*s] & (SPACE | SLASH))) s++;
        if (s >= end) return end;
        if (*s == '>') { *is_empty = s > begin && s[-1] == '/'; return s + 1; }
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

// Whatever may be a tag that opens something, in comments and between quotes too; whether one may hide what is behind.
static int overhear(Formatting *f, const uint8_t *s, const uint8_t *end) {
    int hides = 0;
    while ((s = find(s, end, '<')) < end) {
        const uint8_t *name = ++s, *close = s;
        if (s >= end || !is_letter(*s)) continue;
        while (s < end && !(KINDS[*s] & (SPACE | SLASH | CLOSE)) && *s != '<') s++;
        int64_t words = 0;
        for (close = s; close < end && *close != '>' && *close != '<'; close++)
            words += (KINDS[*close] & (SPACE | SLASH)) != 0;
        tag(f, name, s, close, end, words, 0, 0, 0);
        hides |= raw_name(name, end) != NULL;
        s = close;
    }
    return hides;
}

// Whether a script holds what begins another in a comment: then it does not end where it seems to.
static int is_escaped(const uint8_t *s, const uint8_t *end) {
    int comment = 0;
    for (; (s = find(s, end, '<')) < end; s++) {
        if (end - s >= 4 && !memcmp(s, "<!--", 4)) comment = 1;
        if (comment && is_name(s + 1, end, "script")) return 1;
    }
    return 0;
}

// What all tags of a name, whose elements become one, brought of attributes.
typedef struct { const uint8_t *rest; int64_t length, held; } Merged;

// What it costs to compare those of one more with them; one that is the same as that before it brings nothing new.
static int64_t merge(Merged *m, const uint8_t *rest, const uint8_t *close, int64_t attributes) {
    int64_t cost = 2 * m->held * attributes, length = close - rest;
    if (!m->rest || m->length != length || memcmp(m->rest, rest, (size_t)length)) m->held += attributes;
    m->rest = rest;
    m->length = length;
    return cost;
}

// What tags cost of which nobody can tell where they begin: `total`, and all that whatever may begin one has behind it.
// Each is read by itself, but no more than `left` bytes: then it is as if there were no end.
static int64_t heard(const uint8_t *s, const uint8_t *end, int64_t few, int64_t left, int64_t total, Merged body,
                     Merged html) {
    int64_t count;
    for (; (s = find(s, end, '<')) < end; s++) {
        const uint8_t *name = s + 1 + (end - s > 1 && s[1] == '/'), *p = name;
        if (name >= end || !is_letter(*name)) continue;
        while (p < end && !(KINDS[*p] & (SPACE | SLASH | CLOSE))) p++;
        int is_end = name > s + 1, is_empty;
        const uint8_t *close = behind_tag(p, end, &count, &is_empty);
        if ((left -= close - s) < 0) return ENDLESS;
        if (count > few) total += count * count;
        if (!is_end && is_name(name, end, "body")) total += merge(&body, p, close, count);
        if (!is_end && is_name(name, end, "html")) total += merge(&html, p, close, count);
    }
    return total;
}

// The sum over all tags of more than `few` attributes of their number's square, and what it costs to merge, or of what is
// heard where they cannot be told, if that is more.  `raw`: whether scripts and the like hold no tags; `foreign`: whether
// there is a picture or a formula, in which they do; `f`: NULL, or what is to count too.
static int64_t sum(const uint8_t *s, const uint8_t *end, int64_t few, int raw, int *foreign, Formatting *f) {
    int64_t total = 0, most = 0, left = AGAIN * (end - s), count;
    Merged body = {0}, html = {0};
    while ((s = find(s, end, '<')) < end) {
        if (f && f->lost) {
            most = heard(s, end, few, left, total, body, html);
            overhear(f, s, end);
            f = NULL;
        }
        if (++s >= end) break;
        if (end - s >= 3 && !memcmp(s, "!--", 3)) { s = behind_comment(s + 3, end); continue; }
        const uint8_t *name = s + (*s == '/');
        if (name >= end || !is_letter(*name)) {
            if (f && f->doubtful && end - s >= 8 && !memcmp(s, "![CDATA[", 8)) f->lost = 1;
            if (*s == '!' || *s == '?' || *s == '/') s = find(name, end, '>');
            continue;
        }
        const uint8_t *p = name;
        int is_end = name > s, is_empty;
        while (p < end && !(KINDS[*p] & (SPACE | SLASH | CLOSE))) p++;
        *foreign |= is_name(name, end, "svg") || is_name(name, end, "math");
        s = behind_tag(p, end, &count, &is_empty);
        if (count > few) total += count * count;
        if (!is_end && is_name(name, end, "body")) total += merge(&body, p, s, count);
        if (!is_end && is_name(name, end, "html")) total += merge(&html, p, s, count);
        if (f && p < end) tag(f, name, p, s, end, count, is_end, is_empty, 1);
        const char *hides = raw && !is_end ? raw_name(name, end) : NULL;
        if (!hides) continue;
        const uint8_t *text = s;
        s = behind_raw(hides, s, end);
        if (f && f->doubtful && overhear(f, text, s)) f->lost = 1;
        if (f && !strcmp(hides, "script") && is_escaped(text, s)) f->lost = 1;
    }
    return total > most ? total : most;
}

// Of both ways to read a page that has a picture or a formula the dearer; and how much formatting is rebuilt, where no
// more than `light` is nothing, and what is more than `most` is not told apart.
void tags(const uint8_t *s, int64_t length, int64_t few, int64_t light, int64_t most, int64_t *out) {
    int foreign = 0;
    Formatting f = {.few = light, .most = most};
    int64_t first = sum(s, s + length, few, 1, &foreign, &f);
    int64_t second = foreign ? sum(s, s + length, few, 0, &foreign, NULL) : 0;
    out[0] = first > second ? first : second;
    out[1] = f.rebuilt;
}
