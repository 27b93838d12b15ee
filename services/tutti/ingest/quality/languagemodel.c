// Scores of texts by a naive Bayes model over byte n-grams, which an automaton finds (py3langid's).
//
// languagemodel.py says what they mean, and computes the same bits: each sum goes over the features in the order in which
// they are first met, in float64, nothing of it contracted.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// A function for processors with AVX2 beside the one for all; the loader takes one, and both round alike.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__has_attribute)
#if __has_attribute(target_clones)
#define WIDE __attribute__((target_clones("avx2", "default")))
#endif
#endif
#ifndef WIDE
#define WIDE
#endif

enum { AHEAD = 32, LANES = 16 };

typedef struct {
    const uint32_t *next;    // [rows * 256]: the state behind a state and a byte
    const uint16_t *row;     // [states]: the row of a state
    const int32_t *feature;  // [states]: what is met in a state; -1: nothing
    const uint16_t *table;   // [features * languages]: float16
    const double *prior;     // [languages]
    int64_t features, languages;
} Model;

// float16 as float: its exponent and fraction moved to their places, and the bias made up for (finite numbers alone).
static float widened(uint16_t half) {
    uint32_t bits = (uint32_t)(half & 0x8000) << 16 | (uint32_t)(half & 0x7fff) << 13;
    float value;
    memcpy(&value, &bits, 4);
    return value * 0x1p112f;
}

static int64_t longest(const int64_t *offsets, int64_t documents) {
    int64_t most = 0;
    for (int64_t d = 0; d < documents; d++)
        if (offsets[d + 1] - offsets[d] > most) most = offsets[d + 1] - offsets[d];
    return most;
}

// The feature that is met at each byte of a few documents, `room` for each.  Where one waits for memory the others go on.
static void walk(const Model *m, const uint8_t *data, const int64_t *offsets, int64_t documents, int64_t room,
                 int32_t *features) {
    uint32_t states[LANES] = {0};
    int64_t most = longest(offsets, documents);
    for (int64_t k = 0; k < most; k++)
        for (int64_t d = 0; d < documents; d++) {
            if (k >= offsets[d + 1] - offsets[d]) continue;
            states[d] = m->next[(uint32_t)m->row[states[d]] << 8 | data[offsets[d] + k]];
            features[d * room + k] = m->feature[states[d]];
        }
}

// The sum of the weighted rows of the features of a document, in the order in which they are first met.
WIDE static void add(const Model *m, const int32_t *features, int64_t length, const double *weights, uint32_t *counts,
                uint32_t *met, float *restrict row, double *restrict out) {
    const int64_t languages = m->languages;
    int64_t distinct = 0;
    for (int64_t k = 0; k < length; k++)
        if (features[k] >= 0 && !counts[features[k]]++) met[distinct++] = (uint32_t)features[k];
    memset(out, 0, (size_t)languages * sizeof *out);
    for (int64_t k = 0; k < distinct; k++) {
        const uint16_t *restrict halves = m->table + (int64_t)met[k] * languages;
        double weight = weights[counts[met[k]]];
        // What is far away is asked for in time.
        int64_t then = met[k + AHEAD < distinct ? k + AHEAD : k];
        const char *later = (const char *)(m->table + then * languages);
        for (int64_t at = 0; at < 2 * languages; at += 64) __builtin_prefetch(later + at);
        for (int64_t l = 0; l < languages; l++) row[l] = widened(halves[l]);
        for (int64_t l = 0; l < languages; l++) out[l] += weight * (double)row[l];
        counts[met[k]] = 0;
    }
    for (int64_t l = 0; distinct && l < languages; l++) out[l] += m->prior[l];
}

// scores: float64 [documents * languages], all 0 where nothing is met; `weights` by how often a feature is met.
// -1 when memory is short.
int score(const Model *m, const uint8_t *data, const int64_t *offsets, int64_t documents, const double *weights,
          double *scores) {
    const int64_t room = longest(offsets, documents);
    uint32_t *counts = calloc((size_t)m->features, sizeof *counts);
    uint32_t *met = malloc((size_t)m->features * sizeof *met);
    int32_t *features = malloc((size_t)(LANES * room + 1) * sizeof *features);
    float *row = malloc((size_t)m->languages * sizeof *row);
    int failed = !counts || !met || !features || !row;
    for (int64_t d = 0; d < documents && !failed; d += LANES) {
        int64_t few = documents - d < LANES ? documents - d : LANES;
        walk(m, data, offsets + d, few, room, features);
        for (int64_t k = d; k < d + few; k++)
            add(m, features + (k - d) * room, offsets[k + 1] - offsets[k], weights, counts, met, row,
                scores + k * m->languages);
    }
    free(counts); free(met); free(features); free(row);
    return failed ? -1 : 0;
}
