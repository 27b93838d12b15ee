// Scores of texts by a naive Bayes model over byte n-grams, which an automaton finds (py3langid's).
//
// languagemodel.py says what they mean, and computes the same bits: each sum goes over the features in the order in which
// they are first met, in float64, nothing of it contracted.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { AHEAD = 8 };

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

// scores: float64 [documents * languages], all 0 where nothing is met; `weights` by how often a feature is met.
// -1 when memory is short.
int score(const Model *m, const uint8_t *data, const int64_t *offsets, int64_t documents, const double *weights,
          double *scores) {
    uint32_t *counts = calloc((size_t)m->features, sizeof *counts);
    uint32_t *met = malloc((size_t)m->features * sizeof *met);
    const int64_t languages = m->languages;
    float *restrict row = malloc((size_t)languages * sizeof *row);
    if (!counts || !met || !row) { free(counts); free(met); free(row); return -1; }
    for (int64_t d = 0; d < documents; d++) {
        int64_t distinct = 0;
        uint32_t state = 0;
        for (int64_t k = offsets[d]; k < offsets[d + 1]; k++) {
            state = m->next[(uint32_t)m->row[state] << 8 | data[k]];
            int32_t feature = m->feature[state];
            if (feature >= 0 && !counts[feature]++) met[distinct++] = (uint32_t)feature;
        }
        double *restrict out = scores + d * languages;
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
    free(counts); free(met); free(row);
    return 0;
}
