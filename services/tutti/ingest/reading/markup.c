// One pass over the UTF-8 of a page, before it is parsed, that writes a smaller page of well-nested tags.  markup.py says
// what is left out, and does the same in Python.  Time is in proportion to the page: a tag looks at no more than the
// elements that are open, and their number has a limit.
#include <stdint.h>
#include <string.h>

enum { VISIBLE, MAIN, LINKS };
#define BIT(k) ((uint64_t)1 << (k))
static const uint64_t  // of names, in the order of markupkinds.py
    HARD = BIT(0), BESIDE = BIT(1), RAW = BIT(2), VOID = BIT(3), ENDS_P = BIT(4), SPECIAL = BIT(5), THIN = BIT(6),
    SCOPE = BIT(7), INLINE = BIT(8), FORMAT = BIT(9), HEADING = BIT(10), LIST = BIT(11), ITEM = BIT(12), TERM = BIT(13),
    CELL = BIT(14), ROW = BIT(15), GROUP = BIT(16), TABLE = BIT(17), IGNORED = BIT(18), LABEL = BIT(19),
    WRAPPED = BIT(20), H1 = BIT(21), P = BIT(22), A = BIT(23), BUTTON = BIT(24), FOREIGN = BIT(25), TITLE = BIT(26),
    SCRIPT = BIT(27), TEMPLATE = BIT(28), LINK = BIT(29), THROUGH = BIT(30), BLOCK = BIT(31), SUP = BIT(32),
    MATH = BIT(33), TEX = BIT(34), SIDE = BIT(35), SLUG = BIT(36);
enum { SPACE = 1, SLASH = 2, CLOSE = 4, EQUALS = 8 };
enum { SLOTS = 512, NAME = 16, ATTRIBUTE = 20, MOST_ATTRIBUTES = 16, UNKNOWN = 0, NONE = -1 };
enum { HREF, CLASS, ID, ROLE, STYLE, HIDDEN, ARIA_HIDDEN, TYPE, ENCODING, ALTTEXT };  // attributes that are read
enum {  // sorts, see markupkinds.py
    GONE = 1, BOX = 2, POOR = 4, ASIDE = 8, JAX = 16, LAYOUT = 32, BARE = 64, LINKED = 128, WHOLE = 256, OUT = 512,
    TITLED = 1024, TEASER = 2048,
};
enum { LONG = 60, LITTLE = 50, ARTICLE = 250, QUESTION = 16, WORD = 8 };  // bytes of text, see markupkinds.py

static const uint8_t KINDS[256] = {
    ['\t'] = SPACE, ['\n'] = SPACE, ['\f'] = SPACE, ['\r'] = SPACE, [' '] = SPACE,
    ['/'] = SLASH,  ['>'] = CLOSE,  ['='] = EQUALS,
};

typedef struct { char name[NAME]; uint64_t flags; } Name;
typedef struct { const uint8_t *value; int64_t length; uint8_t quote; } Attribute;
typedef struct { int64_t text, link, prose, titles, heads; } Sums;
typedef struct {
    const uint8_t *name;
    int64_t length, inner, begin, end, formula;  // begin, end: of its source in LaTeX
    uint8_t *at;
    uint64_t flags;
    int id, shown, pending, sort, link;
    Attribute alt;
    Sums in;
} Open;
typedef struct { int64_t begin, end, prose, inner, out, sort; } Block;
typedef struct {
    const uint8_t *end;
    const Name *names;                    // the first has none: it is that of all others
    const char (*attributes)[ATTRIBUTE];  // those that are read
    const Name *words;                    // of classes, likewise
    uint8_t *o, *out;
    Block *block;  // in the order in which they end
    int64_t blocks, most;
    Open *open;
    int64_t mode, cap, longest, depth, deepest, tags, work, bytes, formula, formula_end;
    int count, solid, dropping, tables, labels, templates, links, p, too_deep;
    Sums in, run;
    Attribute has[MOST_ATTRIBUTES];
    uint32_t of_length[ATTRIBUTE];  // first letters
    int opened[SLOTS];
    uint16_t slots[SLOTS], word_slots[SLOTS];
} Page;

static uint8_t lower(uint8_t c) { return c >= 'A' && c <= 'Z' ? c | 32 : c; }
static int is_letter(uint8_t c) { c |= 32; return c >= 'a' && c <= 'z'; }
static uint32_t letter(uint8_t c) { return is_letter(c) ? 1u << ((c | 32) - 'a') : 0; }

static int is_same(const uint8_t *s, const void *name, int64_t n) {
    for (int64_t k = 0; k < n; k++)
        if (lower(s[k]) != lower(((const uint8_t *)name)[k])) return 0;
    return 1;
}

static const uint8_t *find(const uint8_t *s, const uint8_t *end, int c) {
    const uint8_t *found = s < end ? memchr(s, c, (size_t)(end - s)) : NULL;
    return found ? found : end;
}

static uint32_t slot(const uint8_t *s, int64_t length) {
    uint32_t h = (uint32_t)length;
    for (int64_t k = 0; k < length; k++) h = h * 31 + lower(s[k]);
    return (h ^ h >> 9) % SLOTS;
}

static int known(const Name *names, const uint16_t *slots, const uint8_t *s, int64_t length) {
    if (length >= NAME) return UNKNOWN;
    for (uint32_t at = slot(s, length); slots[at]; at = (at + 1) % SLOTS) {
        const char *name = names[slots[at]].name;
        if (is_same(s, name, length) && !name[length]) return slots[at];
    }
    return UNKNOWN;
}

static void fill(const Name *names, int64_t number, uint16_t *slots) {
    for (int k = 1; k < number; k++) {
        uint32_t at = slot((const uint8_t *)names[k].name, (int64_t)strlen(names[k].name));
        while (slots[at]) at = (at + 1) % SLOTS;
        slots[at] = (uint16_t)k;
    }
}

static void write(Page *p, const void *s, int64_t length) {
    memcpy(p->o, s, (size_t)length);
    p->o += length;
}

static void write_text(Page *p, const char *s) { write(p, s, (int64_t)strlen(s)); }

// Text of an attribute, or of an element in which there are no tags.
static void write_plain(Page *p, const uint8_t *s, int64_t length, int is_raw) {
    for (int64_t k = 0; k < length; k++)
        if (s[k] == '<') write_text(p, "&lt;");
        else if (s[k] == '&' && is_raw) write_text(p, "&amp;");
        else *p->o++ = s[k];
}

static void write_name(Page *p, int id) {
    write_text(p, id == UNKNOWN ? "span" : p->names[id].flags & BLOCK ? "div" : p->names[id].name);
}

static void count_tag(Page *p) {
    p->tags++;
    p->work += p->depth + 1;
}

static void take_back(Page *p, const Open *e) {
    p->o = e->at;
    p->blocks = e->inner;
    p->formula_end = NONE;
}

static Sums *around(Page *p) { return p->count ? &p->open[p->count - 1].in : &p->in; }

// A run of text between two blocks ends.
static void end_run(Page *p) {
    if (p->run.text > LONG && 2 * p->run.link < p->run.text) around(p)->prose += p->run.text - p->run.link;
    p->run = (Sums){0};
}

// A formula is what its source in LaTeX is, where there is one.
static void settle_formula(Page *p, Open *e) {
    const int64_t size = e->end - e->begin;
    if (size) memmove(e->at, p->out + e->begin, (size_t)size), p->o = e->at + size;
    else if (e->alt.length) p->o = e->at, write_plain(p, e->alt.value, e->alt.length, 0);
    p->blocks = e->inner;
}

static int is_word(const uint8_t *s, const uint8_t *end) {
    if (end - s < 2 || end - s > WORD) return 0;
    while (s < end && is_letter(*s)) s++;
    return s == end;
}

// A superscript begins with a sign, unless it is empty, or a word as in 19th.
static void settle_superscript(Page *p, const Open *e) {
    if (p->o == e->at || (p->o > e->at + 1 && !is_word(e->at + 1, p->o))) return;
    memmove(e->at, e->at + 1, (size_t)(p->o - e->at - 1));
    p->o--;
    p->formula_end = NONE;
}

static int sort_at_end(const Page *p, const Open *e, int is_poor) {
    const int is_linked = 2 * e->in.link > e->in.text;
    int sort = e->in.titles ? (e->sort & ~BOX) | TITLED : e->sort;
    if (p->mode != MAIN) return e->sort & GONE;
    if (!e->shown) return sort;
    if (!e->in.prose && !e->in.titles && !(e->flags & HEADING && !is_linked)) sort |= BARE;
    if (is_poor && is_linked && !(e->flags & (HEADING | ITEM | TERM))) sort |= LINKED;
    if (e->in.prose && !(e->flags & (HEADING | ITEM | P))) sort |= WHOLE;
    if (e->in.heads && !e->in.titles && e->in.prose < ARTICLE * e->in.heads && !(e->flags & HEADING)) sort |= TEASER;
    return sort;
}

// What an element holds goes to that around it, or is taken back where it is no main content.
static void settle(Page *p, Open *e) {
    Sums *in = around(p);
    Open *top = p->count ? p->open + p->count - 1 : NULL;
    if (e->flags & MATH) settle_formula(p, e);
    if (e->flags & TEX && top && top->flags & MATH) top->begin = e->at - p->out, top->end = p->o - p->out;
    if (e->flags & SUP) settle_superscript(p, e);
    if (e->flags & MATH || e->sort & JAX) p->formula = e->formula, p->formula_end = p->o - p->out;
    e->in.titles += (e->flags & H1) != 0;
    if (e->flags & HEADING && 2 * e->in.link > e->in.text) e->in.prose = 0, e->in.heads++;
    // The run of what is inline goes on, and is no prose yet.
    const int64_t prose = e->flags & INLINE && e->in.text > LONG ? e->in.text - e->in.link : e->in.prose;
    const int is_poor = prose < LITTLE && !e->in.titles;
    const int is_sign = e->flags & BUTTON && e->in.text < QUESTION && !(top && top->flags & (HEADING | TERM));
    if (is_poor && (e->sort & POOR || is_sign)) {
        take_back(p, e);
        return;
    }
    in->text += e->in.text;
    in->link += e->in.link;
    in->prose += e->in.prose;
    in->titles += e->in.titles;
    in->heads += e->in.heads;
    const int sort = sort_at_end(p, e, is_poor);
    if ((!sort && (p->mode != MAIN || !e->shown)) || p->blocks == p->most) return;
    p->block[p->blocks++] = (Block){e->at - p->out, p->o - p->out, prose, e->inner, 0, sort};
}

// The block to look at next, when those inside of one are not looked at.
static int64_t before(const Page *p, int64_t k, int is_whole) { return is_whole ? p->block[k].inner - 1 : k - 1; }

// Mark as OUT what is no main content by its name, and all inside of it, but nothing with most of the prose; in a thread
// nothing with prose, unless it is hidden.
static int64_t mark_out(Page *p, int is_thread) {
    int64_t out = 0;
    for (int64_t k = 0; k < p->blocks; k++) p->block[k].sort &= ~OUT, p->block[k].out = 0;
    for (int64_t k = p->blocks - 1, is_out; k >= 0; k = before(p, k, is_out)) {
        const Block *b = p->block + k;
        is_out = b->sort & (is_thread && b->prose ? GONE : GONE | BOX) && 2 * b->prose <= p->in.prose;
        for (int64_t m = b->inner; is_out && m <= k; m++) p->block[m].sort |= OUT;
        if (is_out) p->block[k].out = b->prose;
    }
    for (int64_t k = 0; k < p->blocks; k++) p->block[k].out = out += p->block[k].out;
    return out;
}

// The first block to end that has nearly all of the prose, or none where there is little.
static Block article(const Page *p, int64_t prose) {
    for (int64_t k = 0; k < p->blocks && prose >= ARTICLE; k++) {
        const Block b = p->block[k];
        const int64_t out = b.out - (b.inner ? p->block[b.inner - 1].out : 0);
        if ((b.sort & (WHOLE | OUT)) == WHOLE && 5 * (b.prose - out) >= 4 * prose) return b;
    }
    return (Block){NONE, NONE, 0, 0, 0, 0};
}

static int64_t prose_of_teasers(const Page *p, const Block *in) {
    int64_t prose = 0;
    for (int64_t k = p->blocks - 1, is_whole; k >= 0; k = before(p, k, is_whole)) {
        const Block *b = p->block + k;
        const int is_teaser = !(b->sort & OUT) && b->sort & TEASER && b->begin >= in->begin && b->end <= in->end;
        if (is_teaser) prose += b->prose;
        is_whole = is_teaser || b->sort & OUT;
    }
    return prose;
}

// Leave out what is no main content, by its name and by where it is.
static void leave_out(Page *p) {
    int64_t prose = p->in.prose - mark_out(p, 0);
    if (prose < ARTICLE && 5 * prose < p->in.prose) prose = p->in.prose - mark_out(p, 1);
    const Block in = article(p, prose);
    const int dropped = LINKED | (2 * prose_of_teasers(p, &in) <= prose ? TEASER : 0);
    int64_t from = 0, spans = p->blocks;
    for (int64_t k = p->blocks - 1, is_out; k >= 0; k = before(p, k, is_out)) {
        const Block b = p->block[k];  // spans may be written over it
        is_out = (b.sort & OUT) != 0;
        if (in.begin < 0) is_out |= b.sort & ASIDE && 2 * b.prose <= p->in.prose;
        else if (b.begin >= in.end) is_out |= !(b.sort & TITLED & ~in.sort);
        else if (b.end <= in.begin) is_out |= (b.sort & (BARE | ASIDE | POOR)) != 0;
        else if (b.begin > in.begin || b.end < in.end) is_out |= (b.sort & dropped) != 0;
        if (is_out) p->block[--spans] = b;
    }
    uint8_t *o = p->out;
    for (int64_t k = spans; k < p->blocks; k++) {
        memmove(o, p->out + from, (size_t)(p->block[k].begin - from));
        o += p->block[k].begin - from;
        from = p->block[k].end;
    }
    memmove(o, p->out + from, (size_t)(p->o - p->out - from));
    p->o = o + (p->o - p->out - from);
}

static void pop(Page *p) {
    if (p->open[p->count - 1].shown) end_run(p);
    Open *e = p->open + --p->count;
    p->opened[e->id]--;
    p->solid -= !(e->flags & INLINE);
    p->tables -= (e->flags & TABLE) != 0;
    p->links -= e->link;
    if (e->shown) {
        write_text(p, "</");
        write_name(p, e->id);
        write_text(p, ">");
        p->depth--;
    }
    p->labels -= e->pending;
    if (e->pending) take_back(p, e);
    else if (p->dropping == NONE) settle(p, e);
    if (p->count == p->dropping) p->dropping = NONE;
}

// End the element of a name, or of a kind, that was opened last, unless one that stops is in it.  Whether there was one.
static int ends(Page *p, int id, const uint8_t *name, int64_t length, uint64_t like, uint64_t stops) {
    for (int k = p->count - 1; k >= 0; k--) {
        const Open *e = p->open + k;
        int is_it = e->id == id && (id || (e->length == length && is_same(e->name, name, length)));
        if (is_it || e->flags & like) {
            while (p->count > k) pop(p);
            return 1;
        }
        if (e->flags & stops) return 0;
    }
    return 0;
}

// End what formats text.  Where blocks have begun in it they stay open.
static void ends_format(Page *p, int id) {
    int k = p->count - 1, split = 0;
    for (; k >= 0 && p->open[k].id != id; k--) {
        if (p->open[k].flags & SCOPE) return;
        split |= p->open[k].flags & (SPECIAL | THIN);
    }
    while (!split && p->count > k) pop(p);
    if (!split) return;
    Open *e = p->open + k;
    p->opened[id]--;
    p->opened[UNKNOWN]++;
    e->id = UNKNOWN;
    e->length = 0;
    p->links -= e->link;
    e->link = 0;
}

static void keep_pending(Page *p) {
    for (int k = 0; k < p->count; k++) p->open[k].pending = 0;
    p->labels = 0;
}

static int is_value(const Attribute *a, const char *value) {
    return a->length == (int64_t)strlen(value) && is_same(a->value, value, a->length);
}

// The sorts of the words of a value: its words end at what is no letter, and before a capital behind a small letter.
static int sorts(const Page *p, const Attribute *a) {
    int of_value = 0, of_name = 0;
    for (int64_t k = 0, from = 0; k <= a->length; k++) {
        const uint8_t c = k < a->length ? a->value[k] : ' ';
        if (is_letter(c) && !(c <= 'Z' && k > from && a->value[k - 1] >= 'a')) continue;
        if (k > from) of_name |= (int)p->words[known(p->words, p->word_slots, a->value + from, k - from)].flags;
        from = is_letter(c) ? k : k + 1;
        if (!(KINDS[c] & SPACE)) continue;
        if (!(of_name & LAYOUT)) of_value |= of_name;
        of_name = 0;
    }
    return of_value;
}

// Whether a style hides an element.
static int hides(const Attribute *a) {
    char plain[24];
    int64_t n = 0;
    for (int64_t k = 0; k <= a->length; k++) {
        const uint8_t c = k < a->length ? a->value[k] : ';';
        if (c == ';') {
            plain[n] = 0;
            if (!strncmp(plain, "display:none", 12) || !strncmp(plain, "visibility:hidden", 17)) return 1;
            n = 0;
        } else if (!(KINDS[c] & SPACE) && n < 23) plain[n++] = (char)lower(c);
    }
    return 0;
}

static int sort_of(const Page *p, uint64_t flags) {
    const Attribute *has = p->has;
    const int is_main = p->mode == MAIN;
    int sort = is_main ? sorts(p, has + CLASS) | sorts(p, has + ROLE) : sorts(p, has + CLASS) & JAX;
    if (is_main && !(flags & SLUG) && !is_value(has + CLASS, "section")) sort |= sorts(p, has + ID);
    if (has[HIDDEN].value && !is_value(has + HIDDEN, "until-found")) sort |= GONE;
    if (is_value(has + ARIA_HIDDEN, "true") && (is_main || flags & INLINE)) sort |= GONE;
    if (hides(has + STYLE)) sort |= GONE;
    if (is_main && flags & BESIDE) sort |= BOX;
    if (is_main && flags & SIDE) sort |= sort & POOR ? BOX : ASIDE;
    return sort;
}

static void write_attributes(Page *p) {
    for (int k = 0; *p->attributes[k]; k++) {
        const Attribute *a = p->has + k;
        if (!a->value) continue;
        write_text(p, " ");
        write_text(p, p->attributes[k]);
        if (!a->length) continue;
        write_text(p, "=");
        write(p, &a->quote, a->quote != 0);
        write(p, a->value, a->length);
        write(p, &a->quote, a->quote != 0);
    }
}

static void opens(Page *p, const uint8_t *name, int64_t length, int id, int is_empty) {
    const uint64_t flags = p->names[id].flags;
    if (flags & IGNORED) return;
    if (flags & (CELL | ROW | GROUP)) {
        if (!p->tables) return;
        uint64_t context = flags & CELL ? ROW | GROUP | TABLE : flags & ROW ? GROUP | TABLE : TABLE;
        while (!(p->open[p->count - 1].flags & context)) pop(p);
    }
    if (flags & ENDS_P && p->opened[p->p]) ends(p, p->p, name, length, 0, SCOPE | BUTTON);
    if (flags & HEADING) ends(p, NONE, name, length, HEADING, SPECIAL | THIN);
    if (flags & (ITEM | TERM)) ends(p, NONE, name, length, flags & (ITEM | TERM), SPECIAL);
    if (flags & A && p->opened[id]) ends_format(p, id);
    if (flags & WRAPPED && p->labels) keep_pending(p);
    if (flags & VOID) {
        if (p->dropping != NONE) return;
        if (flags & ENDS_P) end_run(p);
        count_tag(p);
        write_text(p, flags & ENDS_P ? "<hr>" : "<br>");
        return;
    }
    int is_foreign = flags & FOREIGN || (p->dropping != NONE && p->open[p->dropping].flags & FOREIGN);
    if (is_empty && is_foreign) return;
    const int is_tex = flags & TEX && is_value(p->has + ENCODING, "application/x-tex");
    const int is_hard = flags & HARD || (flags & TEX && !is_tex);
    const int is_open = p->dropping == NONE && !is_hard, is_solid = !(flags & INLINE);
    if (is_solid ? p->solid == p->cap : p->count - p->solid == p->cap) {
        p->too_deep |= is_solid;
        return;
    }
    if (is_open && is_solid) end_run(p);
    Open *top = p->count ? p->open + p->count - 1 : NULL;
    Open new = {.name = name, .length = length, .inner = p->blocks, .at = p->o, .flags = flags, .id = id};
    if (is_open) {
        new.shown = is_solid;
        const int is_anchor = p->has[HREF].length && *p->has[HREF].value == '#';
        new.link = flags & A && p->has[HREF].value && !(is_anchor && top && top->flags & HEADING);
        new.pending = (flags & LABEL) != 0;
        new.sort = sort_of(p, flags);
        new.formula = p->formula_end == p->o - p->out ? p->formula : p->o - p->out;
        if (flags & MATH) new.alt = p->has[ALTTEXT];
        if (flags & MATH && top && top->flags & INLINE) top->sort &= ~GONE;
        if (flags & A && top && top->flags & SUP && p->o == top->at + 1) top->flags &= ~SUP, p->o--;
        if (flags & SUP) *p->o++ = '^';
    }
    p->labels += new.pending;
    p->links += new.link;
    p->solid += is_solid;
    p->opened[id]++;
    p->tables += (flags & TABLE) != 0;
    if (is_hard && p->dropping == NONE) p->dropping = p->count;
    p->open[p->count++] = new;
    if (!new.shown) return;
    count_tag(p);
    if (++p->depth > p->deepest) p->deepest = p->depth;
    write_text(p, "<");
    write_name(p, id);
    write_text(p, ">");
}

static void closes(Page *p, const uint8_t *name, int64_t length, int id) {
    const uint64_t flags = p->names[id].flags;
    uint64_t stops = SPECIAL | THIN;
    if (flags & (IGNORED | RAW)) return;
    if (flags & VOID) {
        if (!(flags & ENDS_P)) opens(p, name, length, id, 0);
        return;
    }
    if (flags & (CELL | ROW | GROUP | TABLE)) stops = TABLE;
    else if (flags & (ITEM | P)) stops = flags & ITEM ? SCOPE | LIST : SCOPE | BUTTON;
    else if (flags & (SPECIAL | THIN | THROUGH)) stops = SCOPE;
    else if (flags & FORMAT) {
        if (p->opened[id]) ends_format(p, id);
        return;
    }
    if ((p->opened[id] || flags & HEADING) && ends(p, id, name, length, flags & HEADING, stops)) return;
    if (!(flags & P) || p->dropping != NONE) return;
    count_tag(p);
    write_text(p, "<p></p>");
}

static void links(Page *p, int id, int is_end) {
    const uint64_t flags = p->names[id].flags;
    if (flags & TEMPLATE) p->templates += is_end ? -(p->templates > 0) : 1;
    if (is_end || p->templates || !(flags & LINK)) return;
    const char *name = p->names[id].name;
    const int is_frame = strstr(name, "frame") != NULL;
    write_text(p, "<");
    write_text(p, is_frame ? "iframe" : name);
    write_attributes(p);
    write_text(p, ">");
    if (is_frame || flags & A) write_text(p, is_frame ? "</iframe>" : "</a>");
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

static int is_name(const uint8_t *s, const uint8_t *end, const uint8_t *name, int64_t length) {
    return end - s > length && is_same(s, name, length) && KINDS[s[length]] & (SPACE | SLASH | CLOSE);
}

// Where the end tag begins of an element in which there are no tags.  In a comment of a script may be another script.
static const uint8_t *behind_raw(const uint8_t *s, const uint8_t *end, const uint8_t *name, int64_t length, int script) {
    for (int comment = 0, inner = 0; s < end; s++) {
        if (!comment && (s = find(s, end, '<')) == end) break;
        if (comment && end - s >= 3 && !memcmp(s, "-->", 3)) comment = inner = 0;
        if (*s != '<') continue;
        if (script && end - s >= 4 && !memcmp(s, "<!--", 4)) comment = 1, s++;
        else if (comment && is_name(s + 1, end, name, length)) inner = 1;
        else if (end - s >= 2 && s[1] == '/' && is_name(s + 2, end, name, length)) {
            if (!inner) return s;
            inner = 0;
        }
    }
    return end;
}

static void keep(Page *p, const uint8_t *name, int64_t length, const uint8_t *value, int64_t size, uint8_t quote) {
    if (length >= ATTRIBUTE || !(letter(*name) & p->of_length[length])) return;
    for (int k = 0; *p->attributes[k]; k++) {
        if (!is_same(name, p->attributes[k], length) || p->attributes[k][length]) continue;
        if (p->has[k].value) return;  // the first counts
        if (size > p->longest)
            for (size = p->longest; size && (value[size] & 0xc0) == 0x80; size--) {}
        p->has[k] = (Attribute){value, size, quote};
        return;
    }
}

// Behind a tag whose name ends at `s`, or NULL where it has no end; its attributes, and whether it closes itself.
static const uint8_t *behind_tag(Page *p, const uint8_t *s, int *is_empty) {
    const uint8_t *end = p->end;
    memset(p->has, 0, sizeof p->has);
    for (;;) {
        const uint8_t *begin = s;
        while (s < end && KINDS[*s] & (SPACE | SLASH)) s++;
        if (s >= end) return NULL;
        if (*s == '>') { *is_empty = s > begin && s[-1] == '/'; return s + 1; }
        const uint8_t *name = s, *value, *from;
        int64_t length, size = 0;
        uint8_t quote = 0;
        for (s++; s < end && !KINDS[*s]; s++) {}
        length = s - name;
        for (value = from = s; value < end && KINDS[*value] & SPACE; value++) {}
        if (value < end && *value == '=') {
            for (value++; value < end && KINDS[*value] & SPACE; value++) {}
            if (value < end && (*value == '"' || *value == '\'')) {
                quote = *value;
                from = value + 1;
                s = find(from, end, quote);
                size = s - from;
                s += s < end;
            } else {
                for (from = s = value; s < end && !(KINDS[*s] & (SPACE | CLOSE)); s++) {}
                size = s - from;
            }
        }
        keep(p, name, length, from, size, quote);
    }
}

static void count_text(Page *p, const uint8_t *s, int64_t length) {
    Sums *in = around(p);
    for (; length && KINDS[*s] & SPACE; length--) s++;
    for (; length && KINDS[s[length - 1]] & SPACE; length--) {}
    in->text += length;
    p->run.text += length;
    if (!p->links) return;
    in->link += length;
    p->run.link += length;
}

static void text(Page *p, const uint8_t *s, int64_t length) {
    if (p->mode == LINKS || p->dropping != NONE) return;
    p->bytes += length * p->depth;
    write(p, s, length);
    count_text(p, s, length);
}

// A formula in LaTeX in a script, in place of how it is shown just before.
static void write_formula(Page *p, const uint8_t *s, int64_t length) {
    const int is_within = !p->count || p->open[p->count - 1].at <= p->out + p->formula;
    if (p->formula_end == p->o - p->out && is_within) {
        p->o = p->out + p->formula;
        while (p->blocks && p->block[p->blocks - 1].end > p->formula) p->blocks--;
    }
    p->bytes += length * p->depth;
    write_plain(p, s, length, 1);
    count_text(p, s, length);
    p->formula_end = NONE;
}

static void read_page(Page *p, const uint8_t *s, int64_t *title) {
    const uint8_t *end = p->end, *begin = s;
    while (s < end && !p->too_deep) {
        const uint8_t *mark = find(s, end, '<');
        if (mark > s) text(p, s, mark - s);
        if ((s = mark) >= end) break;
        int is_end = end - s > 1 && s[1] == '/';
        const uint8_t *name = s + 1 + is_end;
        if (name >= end || !is_letter(*name)) {
            if (end - s >= 4 && !memcmp(s, "<!--", 4)) s = behind_comment(s + 4, end);
            else if (is_end ? name < end : name < end && (*name == '!' || *name == '?'))
                s = find(name, end, '>'), s += s < end;
            else {
                text(p, (const uint8_t *)"&lt;", 4);
                s++;
            }
            continue;
        }
        int is_empty = 0;
        for (s = name; s < end && !(KINDS[*s] & (SPACE | SLASH | CLOSE)); s++) {}
        int64_t length = s - name;
        if (!(s = behind_tag(p, s, &is_empty))) break;
        int id = known(p->names, p->slots, name, length);
        uint64_t flags = p->names[id].flags;
        if (p->mode == LINKS) links(p, id, is_end);
        else if (is_end) closes(p, name, length, id);
        else if (!(flags & RAW)) opens(p, name, length, id, is_empty);
        int is_foreign = p->dropping != NONE && p->open[p->dropping].flags & FOREIGN;
        if (is_end || !(flags & RAW) || (is_empty && is_foreign)) continue;
        const uint8_t *body = s;
        const int is_formula = flags & SCRIPT && p->mode != LINKS && p->dropping == NONE && p->has[TYPE].length >= 8
            && is_same(p->has[TYPE].value, "math/tex", 8);
        s = behind_raw(s, end, name, length, (flags & SCRIPT) != 0);
        if (is_formula) write_formula(p, body, s - body);
        if (flags & TITLE && !is_foreign && !title[1]) title[0] = body - begin, title[1] = s - begin;
    }
    while (p->count) pop(p);
    leave_out(p);
}

// Written: the bytes of `out`, begin and end of the title in the page, tags, levels, what to read its tree costs, and
// whether it is too deep.  `out` holds five times the page, `blocks` as many as `most`.
void markup(const uint8_t *s, int64_t length, int64_t mode, const Name *names, int64_t number,
            const char (*attributes)[ATTRIBUTE], const Name *words, int64_t number_of_words, int64_t cap,
            int64_t longest, int64_t most, uint8_t *out, Block *blocks, int64_t *written) {
    Open open[2 * cap];
    Page p = {.end = s + length, .names = names, .attributes = attributes, .words = words, .o = out, .out = out,
              .block = blocks, .most = most, .open = open, .mode = mode, .cap = cap, .longest = longest, .dropping = NONE,
              .formula_end = NONE};
    fill(names, number, p.slots);
    fill(words, number_of_words, p.word_slots);
    for (int k = 1; k < number; k++)
        if (names[k].flags & P) p.p = k;
    for (int k = 0; *attributes[k]; k++) p.of_length[strlen(attributes[k])] |= letter((uint8_t)*attributes[k]);
    written[1] = written[2] = 0;
    read_page(&p, s, written + 1);
    written[0] = p.o - out;
    written[3] = p.tags;
    written[4] = p.deepest;
    written[5] = p.work + p.bytes / 16;
    written[6] = p.too_deep;
}
