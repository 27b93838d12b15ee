// The written form of a text, in one pass over its UTF-8 (in which a surrogate may stand alone, as three bytes).
//
// normalisation.py says what it is, and computes the same in Python; composing (NFC) is left to Python, for texts that
// have a character that may take part in it.  What is written is never longer than what is read.
#include <stdint.h>
#include <string.h>

// How many of eight bytes are copied as they are, from the first on: each from 0x20 to 0x7e.  Bytes are added without a
// carry between them; the first is the lowest, as on every processor we build for.
static int plain(uint64_t w) {
    const uint64_t ones = 0x0101010101010101ULL, highs = 0x8080808080808080ULL;
    uint64_t printable = (w & ~highs) + 0x60 * ones;       // 0x20 and above: the high bit
    uint64_t behind_tilde = (w & ~highs) + ones;           // 0x7f: the high bit
    uint64_t others = (w | behind_tilde | ~printable) & highs;
    return others ? __builtin_ctzll(others) >> 3 : 8;
}

// Whether something may have to be composed; `written`: how many bytes are in `out`.
int normalise(const uint8_t *s, int64_t length, uint8_t *out, int64_t *written) {
    const uint8_t *end = s + length;
    uint8_t *o = out, *kept = out;  // `kept` is behind the last character that is no space and no line feed
    int64_t feeds = 0;              // line feeds since then
    int begun = 0;                  // whether this line has a character yet
    int composed = 0;
    while (s < end) {
        uint8_t c = *s;
        int size = 1;
        enum { COPIED, SPACE, FEED, GONE, REPLACED } what = COPIED;
        if (c < 0x80) {
            if (c == '\n') what = FEED;
            else if (c == '\r') { what = FEED; size = s + 1 < end && s[1] == '\n' ? 2 : 1; }
            else if (c == ' ' || c == '\t') what = SPACE;
            else if (c < 0x20 || c == 0x7f) what = GONE;
        } else if (c < 0xe0) {
            size = 2;
            if (c == 0xc2 && s[1] < 0xa0) what = GONE;
            else if (c == 0xc2 && s[1] == 0xa0) { what = SPACE; c = ' '; }
            else if (c == 0xc2 && s[1] == 0xad) what = GONE;
            else composed |= c >= 0xcc;  // U+0300, and what is behind
        } else if (c < 0xf0) {
            size = 3;
            if (c == 0xe2 && s[1] == 0x80 && s[2] == 0xaf) { what = SPACE; c = ' '; }
            else if (c == 0xef && s[1] == 0xbb && s[2] == 0xbf) what = GONE;
            else if (c == 0xed && s[1] >= 0xa0) what = REPLACED;
            else composed |= !(c == 0xe2 && s[1] == 0x80 && s[2] >= 0x82 && s[2] <= 0xa7);  // dashes, quotes, dots
        } else {
            size = 4;
            composed = 1;
        }
        if (what == GONE) { s += size; continue; }
        if (what == FEED) {
            o = kept;
            feeds++;
            begun = 0;
            s += size;
            continue;
        }
        if (!begun) {
            if (kept > out)
                for (int64_t k = feeds > 2 ? 2 : feeds; k; k--) *o++ = '\n';
            begun = 1;
        }
        if (what == SPACE) { *o++ = c; s += size; continue; }
        if (what == REPLACED) memcpy(o, "\xef\xbf\xbd", 3);
        else for (int k = 0; k < size; k++) o[k] = s[k];
        o += size;
        s += size;
        for (uint64_t w; end - s >= 8;) {
            memcpy(&w, s, 8);
            memcpy(o, &w, 8);
            int some = plain(w);
            s += some;
            o += some;
            if (some < 8) break;
        }
        for (kept = o; kept[-1] == ' '; kept--) {}  // before the spaces there is what was copied first
        feeds = 0;
    }
    *written = kept - out;
    return composed;
}
