// Whether a text may hold personal data, by few passes over its UTF-8: more often than it does, never when it does.
//
// pii.py asks this before it looks; a text that is free of these forms is then looked at no further.
#include <stdint.h>
#include <string.h>

enum { KEYS = 1, NUMBERS = 2, ADDRESSES = 4 };
enum { DIGIT = 1, IN_NUMBER = 2, IN_KEY = 4, HEX = 8, IN_ADDRESS = 16, BEGINS = 32 };

// Each form of a key: its length, the fewest characters behind it, its characters; a length of 0 ends them.
static int begins_key(const uint8_t *s, const uint8_t *end, const uint8_t *forms, const uint8_t *kinds) {
    for (const uint8_t *f = forms; *f; f += 2 + *f) {
        int64_t n = *f, least = f[1], k = 0;
        if (end - s < n + least) continue;
        while (k < n && s[k] == f[2 + k]) k++;
        if (k < n) continue;
        while (k < n + least && (kinds[s[k]] & IN_KEY)) k++;
        if (k == n + least) return 1;
    }
    return 0;
}

// Whether one of eight bytes is a digit.
static int has_digit(uint64_t w) {
    const uint64_t ones = 0x0101010101010101ULL, highs = 0x8080808080808080ULL;
    uint64_t low = w & ~highs;
    return ((low + 0x50 * ones) & ~(low + 0x46 * ones) & ~w & highs) != 0;  // from 0x30 on, and not from 0x3a on
}

// The next run of what numbers are written with that may hold one, from its first digit, plus or bracket on.  A card has
// 13 digits or more, an address four and three full stops; a telephone seven and a plus, ten and a full stop or a
// hyphen, or groups of three, three and four.  NULL where there is none; `stop`: its end.  No run begins before `begin`.
static const uint8_t *number(const uint8_t *begin, const uint8_t *end, const uint8_t *kinds, const uint8_t **stop) {
    const uint8_t *s = begin;
    uint64_t w;
    while (s < end) {
        while (end - s >= 8 && (memcpy(&w, s, 8), !has_digit(w))) s += 8;
        while (s < end && !(kinds[*s] & DIGIT)) s++;
        const uint8_t *first = s;
        const uint8_t *run = first;
        int64_t digits = 0, stops = 0, hyphens = 0, pluses = 0, group = 0;
        unsigned groups = 0;  // the digits of each of the last three, four bits each
        int american = 0;
        for (const uint8_t *p = first; p > begin && (kinds[p[-1]] & IN_NUMBER); p--) {
            pluses += p[-1] == '+';
            if (p[-1] == '+' || p[-1] == '(') run = p - 1;
        }
        for (; s < end && (kinds[*s] & IN_NUMBER); s++) {
            digits += kinds[*s] & DIGIT;
            stops += *s == '.';
            hyphens += *s == '-';
            pluses += *s == '+';
            if (kinds[*s] & DIGIT) {
                group++;
            } else if (group) {
                groups = (groups << 4 | (unsigned)(group < 15 ? group : 15)) & 0xfff;
                american |= groups == 0x334;
                group = 0;
            }
        }
        american |= ((groups << 4 | (unsigned)(group < 15 ? group : 15)) & 0xfff) == 0x334;
        const int card = digits >= 13, address = digits >= 4 && stops >= 3;
        const int telephone = (digits >= 7 && pluses) || (digits >= 10 && stops + hyphens) || american;
        if (!card && !address && !telephone) continue;
        *stop = s;
        return run;
    }
    return NULL;
}

// Of the forms, how many characters the shortest key has.
static int64_t shortest_key(const uint8_t *forms) {
    int64_t shortest = INT64_MAX;
    for (const uint8_t *f = forms; *f; f += 2 + *f)
        if (f[0] + f[1] < shortest) shortest = f[0] + f[1];
    return shortest;
}

// A key begins a run of its characters.  Where such a run begins is asked for every run that a key fits into: where the
// character that would be the last of it is none of a key, all before that is passed over.
static int has_key(const uint8_t *s, const uint8_t *end, const uint8_t *forms, const uint8_t *kinds) {
    const int64_t shortest = shortest_key(forms);
    while (end - s >= shortest) {  // here a run begins, or what is none
        const uint8_t *last = s + shortest;
        while (last > s && (kinds[last[-1]] & IN_KEY)) last--;
        if (last > s) { s = last; continue; }
        if ((kinds[*s] & BEGINS) && begins_key(s, end, forms, kinds)) return 1;
        for (s += shortest; s < end && (kinds[*s] & IN_KEY); s++) {}
    }
    return 0;
}

static int has_address(const uint8_t *begin, const uint8_t *end, const uint8_t *kinds) {
    for (const uint8_t *s = begin; s < end && (s = memchr(s, ':', (size_t)(end - s))); s++)
        if (s - begin >= 4 && end - s >= 3 && (s[-4] == '2' || s[-4] == '3') && (kinds[s[-3]] & HEX) &&
            (kinds[s[-2]] & HEX) && (kinds[s[-1]] & HEX) && (kinds[s[1]] & IN_ADDRESS) && (kinds[s[2]] & IN_ADDRESS))
            return 1;
    return 0;
}

static void classify(uint8_t *kinds) {
    memset(kinds, 0, 256);
    for (int c = 0; c < 256; c++) {
        int digit = c >= '0' && c <= '9', letter = (c | 32) >= 'a' && (c | 32) <= 'z';
        if (digit) kinds[c] |= DIGIT;
        if (digit || c == ' ' || c == '(' || c == ')' || c == '.' || c == '+' || c == '-') kinds[c] |= IN_NUMBER;
        if (digit || letter || c == '_' || c == '.' || c == '-') kinds[c] |= IN_KEY;
        if (digit || (letter && (c | 32) <= 'f')) kinds[c] |= HEX | IN_ADDRESS;
        if (c == ':' || c == '.') kinds[c] |= IN_ADDRESS;
    }
}

int suspicions(const uint8_t *text, int64_t length, const uint8_t *forms) {
    const uint8_t *end = text + length, *stop;
    uint8_t kinds[256];
    classify(kinds);
    for (const uint8_t *f = forms; *f; f += 2 + *f) kinds[f[2]] |= BEGINS;
    return (has_key(text, end, forms, kinds) ? KEYS : 0) | (number(text, end, kinds, &stop) ? NUMBERS : 0) |
           (has_address(text, end, kinds) ? ADDRESSES : 0);
}

// Where numbers may stand from `at` on: `room` pairs of begin and end at most; returns how many.  `at` is then where to
// go on, `length` when all is looked at.
int numbers(const uint8_t *text, int64_t length, int64_t *at, int64_t *windows, int room) {
    const uint8_t *begin, *stop = text + *at, *end = text + length;
    uint8_t kinds[256];
    int found = 0;
    classify(kinds);
    while (found < room && (begin = number(stop, end, kinds, &stop))) {
        windows[2 * found] = begin - text;
        windows[2 * found++ + 1] = stop - text;
    }
    *at = found < room ? length : stop - text;
    return found;
}
