// One pass over the UTF-8 of a page, before it is parsed, that writes a smaller page of well-nested tags.  markup.py says
// what is left out, and does the same in Python.  Time is in proportion to the page: a tag looks at no more than the
// elements that are open, and their number has a limit.
#include <stdint.h>
#include <string.h>

enum { VISIBLE, MAIN, LINKS };
enum {  // of names, in the order of markup.py
    HARD = 1 << 0, BESIDE = 1 << 1, RAW = 1 << 2, VOID = 1 << 3, ENDS_P = 1 << 4, SPECIAL = 1 << 5, THIN = 1 << 6,
    SCOPE = 1 << 7, INLINE = 1 << 8, FORMAT = 1 << 9, HEADING = 1 << 10, LIST = 1 << 11, ITEM = 1 << 12,
    TERM = 1 << 13, CELL = 1 << 14, ROW = 1 << 15, GROUP = 1 << 16, TABLE = 1 << 17, IGNORED = 1 << 18,
    LABEL = 1 << 19, WRAPPED = 1 << 20, H1 = 1 << 21, P = 1 << 22, A = 1 << 23, BUTTON = 1 << 24, FOREIGN = 1 << 25,
    TITLE = 1 << 26, SCRIPT = 1 << 27, TEMPLATE = 1 << 28, LINK = 1 << 29, THROUGH = 1 << 30, H2 = 1u << 31,
};
enum { SPACE = 1, SLASH = 2, CLOSE = 4, EQUALS = 8 };
enum { SLOTS = 512, NAME = 12, ATTRIBUTE = 20, MOST_ATTRIBUTES = 16, HREF = 0, CLASS = 1, UNKNOWN = 0, NONE = -1 };
enum { IS_LABEL = 1, IS_BOX = 2 };  // of what is pending
enum { LONG = 60, POOR = 50, ARTICLE = 250 };  // bytes of text, see markup.py

static const uint8_t KINDS[256] = {
    ['\t'] = SPACE, ['\n'] = SPACE, ['\f'] = SPACE, ['\r'] = SPACE, [' '] = SPACE,
    ['/'] = SLASH,  ['>'] = CLOSE,  ['='] = EQUALS,
};

typedef struct { char name[NAME]; uint32_t flags; } Name;
typedef struct { const uint8_t *value; int64_t length; uint8_t quote; } Attribute;
typedef struct { int64_t text, link, prose, titles; } Sums;
typedef struct {
    const uint8_t *name;
    int64_t length, spans;
    uint8_t *at;
    uint32_t flags;
    int id, shown, pending, named, link;
    Sums in;
} Open;
typedef struct { int64_t begin, end; } Span;
typedef struct {
    const uint8_t *end;
    const Name *names;                    // the first has none: it is that of all others
    const char (*attributes)[ATTRIBUTE];  // those that are read
    const char *boxes, *poor;             // parts of classes, each ended by a zero
    uint8_t *o, *out;
    Span *span, *mark;  // of elements without prose; of those with the most prose yet, that and their end
    int64_t spans, marks;
    Open *open;
    int64_t mode, cap, longest, depth, deepest, tags, work, bytes;
    int count, solid, dropping, tables, labels, boxed, templates, links, p, too_deep;
    Sums in;
    Attribute has[MOST_ATTRIBUTES];
    uint32_t of_length[ATTRIBUTE], of_boxes, of_poor;  // first letters
    int opened[SLOTS];
    uint16_t slots[SLOTS];
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

static int known(const Page *p, const uint8_t *s, int64_t length) {
    if (length >= NAME) return UNKNOWN;
    for (uint32_t at = slot(s, length); p->slots[at]; at = (at + 1) % SLOTS) {
        const char *name = p->names[p->slots[at]].name;
        if (is_same(s, name, length) && !name[length]) return p->slots[at];
    }
    return UNKNOWN;
}

static void write(Page *p, const void *s, int64_t length) {
    memcpy(p->o, s, (size_t)length);
    p->o += length;
}

static void write_text(Page *p, const char *s) { write(p, s, (int64_t)strlen(s)); }

static void write_name(Page *p, int id) { write_text(p, id == UNKNOWN ? "span" : p->names[id].name); }

static void count_tag(Page *p) {
    p->tags++;
    p->work += p->depth + 1;
}

static void take_back(Page *p, const Open *e) {
    p->o = e->at;
    p->spans = e->spans;
    while (p->marks && p->mark[p->marks - 1].end > e->at - p->out) p->marks--;
}

// What an element holds goes to that around it, or is taken back where it is no main content.
static void settle(Page *p, Open *e) {
    Sums *in = p->count ? &p->open[p->count - 1].in : &p->in;
    if (e->flags & P && e->in.text > LONG) e->in.prose += e->in.text - e->in.link;
    if (e->flags & H1) e->in.titles++;
    if (e->in.prose < POOR && !e->in.titles && (e->named || (e->flags & HEADING && 2 * e->in.link > e->in.text))) {
        take_back(p, e);
        return;
    }
    in->text += e->in.text;
    in->link += e->in.link;
    in->prose += e->in.prose;
    in->titles += e->in.titles;
    if (!e->shown || (!e->in.prose && (e->in.titles || e->flags & H2))) return;
    if (!e->in.prose) {
        p->spans = e->spans;
        p->span[p->spans++] = (Span){e->at - p->out, p->o - p->out};
    } else if (!(e->flags & P) && (!p->marks || e->in.prose > p->mark[p->marks - 1].begin))
        p->mark[p->marks++] = (Span){e->in.prose, p->o - p->out};
}

// Leave out what has no prose behind the element that has nearly all of it.
static void leave_out(Page *p) {
    int64_t behind = -1, k = 0, from = 0;
    uint8_t *o = p->out;
    if (p->in.prose < ARTICLE) return;
    for (int64_t m = 0; m < p->marks && behind < 0; m++)
        if (10 * p->mark[m].begin >= 9 * p->in.prose) behind = p->mark[m].end;
    if (behind < 0) return;
    while (k < p->spans && p->span[k].begin < behind) k++;
    for (; k < p->spans; k++) {
        memmove(o, p->out + from, (size_t)(p->span[k].begin - from));
        o += p->span[k].begin - from;
        from = p->span[k].end;
    }
    memmove(o, p->out + from, (size_t)(p->o - p->out - from));
    p->o = o + (p->o - p->out - from);
}

static void pop(Page *p) {
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
    p->labels -= e->pending == IS_LABEL;
    p->boxed -= e->pending == IS_BOX;
    if (e->pending) take_back(p, e);
    else if (p->mode == MAIN && p->dropping == NONE) settle(p, e);
    if (p->count == p->dropping) p->dropping = NONE;
}

// End the element of a name, or of a kind, that was opened last, unless one that stops is in it.  Whether there was one.
static int ends(Page *p, int id, const uint8_t *name, int64_t length, uint32_t like, uint32_t stops) {
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

static void keep_pending(Page *p, int kind) {
    for (int k = 0; k < p->count; k++)
        if (p->open[k].pending == kind) p->open[k].pending = 0;
}

static int has_part(const Attribute *a, const char *parts, uint32_t letters) {
    for (int64_t k = 0; k < a->length; k++) {
        if (!(letter(a->value[k]) & letters)) continue;
        for (const char *each = parts; *each; each += strlen(each) + 1)
            if (a->length - k >= (int64_t)strlen(each) && is_same(a->value + k, each, (int64_t)strlen(each))) return 1;
    }
    return 0;
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
    const uint32_t flags = p->names[id].flags;
    if (flags & IGNORED) return;
    if (flags & (CELL | ROW | GROUP)) {
        if (!p->tables) return;
        uint32_t context = flags & CELL ? ROW | GROUP | TABLE : flags & ROW ? GROUP | TABLE : TABLE;
        while (!(p->open[p->count - 1].flags & context)) pop(p);
    }
    if (flags & ENDS_P && p->opened[p->p]) ends(p, p->p, name, length, 0, SCOPE | BUTTON);
    if (flags & HEADING) ends(p, NONE, name, length, HEADING, SPECIAL | THIN);
    if (flags & (ITEM | TERM)) ends(p, NONE, name, length, flags & (ITEM | TERM), SPECIAL);
    if (flags & A && p->opened[id]) ends_format(p, id);
    if (flags & H1 && p->boxed) keep_pending(p, IS_BOX), p->boxed = 0;
    if (flags & WRAPPED && p->labels) keep_pending(p, IS_LABEL), p->labels = 0;
    if (flags & VOID) {
        if (p->dropping != NONE) return;
        count_tag(p);
        write_text(p, flags & ENDS_P ? "<hr>" : "<br>");
        return;
    }
    int is_foreign = flags & FOREIGN || (p->dropping != NONE && p->open[p->dropping].flags & FOREIGN);
    if (is_empty && is_foreign) return;
    const int is_main = p->mode == MAIN, is_hard = flags & HARD || (is_main && flags & BESIDE);
    const int is_open = p->dropping == NONE && !is_hard, is_solid = !(flags & INLINE);
    if (is_solid ? p->solid == p->cap : p->count - p->solid == p->cap) {
        p->too_deep |= is_solid;
        return;
    }
    Open new = {.name = name, .length = length, .spans = p->spans, .at = p->o, .flags = flags, .id = id};
    if (is_open) {
        new.shown = is_solid;
        new.link = is_main && flags & A && p->has[HREF].value;
        new.pending = flags & LABEL ? IS_LABEL : is_main && has_part(p->has + CLASS, p->boxes, p->of_boxes) ? IS_BOX : 0;
        new.named = is_main && has_part(p->has + CLASS, p->poor, p->of_poor);
    }
    p->labels += new.pending == IS_LABEL;
    p->boxed += new.pending == IS_BOX;
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
    const uint32_t flags = p->names[id].flags;
    uint32_t stops = SPECIAL | THIN;
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
    const uint32_t flags = p->names[id].flags;
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

static void text(Page *p, const uint8_t *s, int64_t length) {
    if (p->mode == LINKS || p->dropping != NONE) return;
    p->bytes += length * p->depth;
    write(p, s, length);
    if (p->mode != MAIN) return;
    Sums *in = p->count ? &p->open[p->count - 1].in : &p->in;
    for (; length && KINDS[*s] & SPACE; length--) s++;
    for (; length && KINDS[s[length - 1]] & SPACE; length--) {}
    in->text += length;
    if (p->links) in->link += length;
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
        int id = known(p, name, length);
        uint32_t flags = p->names[id].flags;
        if (p->mode == LINKS) links(p, id, is_end);
        else if (is_end) closes(p, name, length, id);
        else if (!(flags & RAW)) opens(p, name, length, id, is_empty);
        int is_foreign = p->dropping != NONE && p->open[p->dropping].flags & FOREIGN;
        if (is_end || !(flags & RAW) || (is_empty && is_foreign)) continue;
        const uint8_t *body = s;
        s = behind_raw(s, end, name, length, flags & SCRIPT);
        if (flags & TITLE && !is_foreign && !title[1]) title[0] = body - begin, title[1] = s - begin;
    }
    while (p->count) pop(p);
    leave_out(p);
}

// Written: the bytes of `out`, begin and end of the title in the page, tags, levels, what to read its tree costs, and
// whether it is too deep.  `out` holds four times the page, `spans` and `marks` two numbers for each three
// bytes of it.
void markup(const uint8_t *s, int64_t length, int64_t mode, const Name *names, int64_t number,
            const char (*attributes)[ATTRIBUTE], const char *boxes, const char *poor, int64_t cap, int64_t longest,
            uint8_t *out, Span *spans, Span *marks, int64_t *written) {
    Open open[2 * cap];
    Page p = {.end = s + length, .names = names, .attributes = attributes, .boxes = boxes, .poor = poor, .o = out, .out = out,
              .span = spans, .mark = marks, .open = open,
              .mode = mode, .cap = cap, .longest = longest, .dropping = NONE};
    for (int k = 1; k < number; k++) {
        const uint8_t *name = (const uint8_t *)names[k].name;
        uint32_t at = slot(name, (int64_t)strlen(names[k].name));
        while (p.slots[at]) at = (at + 1) % SLOTS;
        p.slots[at] = (uint16_t)k;
        if (names[k].flags & P) p.p = k;
    }
    for (int k = 0; *attributes[k]; k++) p.of_length[strlen(attributes[k])] |= letter((uint8_t)*attributes[k]);
    for (const char *each = boxes; *each; each += strlen(each) + 1) p.of_boxes |= letter((uint8_t)*each);
    for (const char *each = poor; *each; each += strlen(each) + 1) p.of_poor |= letter((uint8_t)*each);
    written[1] = written[2] = 0;
    read_page(&p, s, written + 1);
    written[0] = p.o - out;
    written[3] = p.tags;
    written[4] = p.deepest;
    written[5] = p.work + p.bytes / 16;
    written[6] = p.too_deep;
}
